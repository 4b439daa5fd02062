#include "harness/acceptance/trace/trace_file.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <map>

#include "harness/checkpoint/mapped_file.h"
#include "harness/checkpoint/safetensors/header.h"
#include "reference/tensor/error.h"
#include "reports/hdf5/file_image.h"
#include "reports/hdf5/node.h"

namespace mtpcheck {
namespace {

using reports::hdf5::Handle;

// A file's named tensors and texts, whatever its format.
struct Source {
  std::string file;
  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<const void> storage;
};

Source open_safetensors(const std::filesystem::path& path) {
  auto mapped = std::make_shared<MappedFile>(path);
  HeaderReader reader;
  auto read = reader.read(mapped->bytes(), path.string());
  if (const auto* const problem = std::get_if<Problem>(&read)) throw input_error(problem->message);
  auto& header = std::get<SafetensorsHeader>(read);
  Source source{path.string(), {}, std::move(header.metadata), mapped};
  for (auto& tensor : header.tensors) {
    tensor.bytes = mapped->bytes().subspan(tensor.offset, *byte_size(tensor.dtype, tensor.elements()));
    source.tensors.emplace(tensor.name, std::move(tensor));
  }
  return source;
}

Shape extents_of(hid_t file, const std::string& name) {
  const Handle dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, name);
  const Handle space(H5Dget_space(dataset.get()), H5Sclose, name);
  std::vector<hsize_t> extents(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.get())));
  H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  return {extents.begin(), extents.end()};
}

// HDF5 has no bfloat16, and its numbers are read as the widest type of their kind: float64 rounds to float32 exactly
// here, since files hold at most float32.
Source open_hdf5(const std::filesystem::path& path) {
  const Handle file = reports::hdf5::open_for_reading(path.string());
  auto owned = std::make_shared<std::vector<Tensor>>();
  Source source{path.string(), {}, {}, owned};
  std::vector<std::string> names;
  for (const auto* const name :
       {"input_ids", "positions", "top_ids", "target_hidden", "target_logits", "top_log_probabilities"}) {
    if (!reports::hdf5::has_link(file.get(), name)) continue;
    const bool integers = std::string_view(name).ends_with("ids") || std::string_view(name) == "positions";
    Shape shape = extents_of(file.get(), name);
    if (integers) {
      const auto values = reports::hdf5::read_integers(file.get(), name);
      owned->push_back(tensor_of<std::int64_t>(std::move(shape), values));
    } else {
      const auto values = reports::hdf5::read_doubles(file.get(), name);
      const std::vector<float> narrow(values.begin(), values.end());
      owned->push_back(tensor_of<float>(std::move(shape), narrow));
    }
    names.emplace_back(name);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    TensorView view = (*owned)[i].view(names[i]);
    view.file = source.file;
    source.tensors.emplace(names[i], std::move(view));
  }
  for (const auto* const key : {"prompt_length", "generated", "temperature", "vocab_size"}) {
    const auto text = reports::hdf5::read_attribute(file.get(), key, std::string());
    if (!text.empty()) source.metadata.emplace(key, text);
  }
  return source;
}

Source open_any(const std::filesystem::path& path) {
  static constexpr std::array<unsigned char, 8> kHdf5{0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};
  const MappedFile mapped(path);
  const auto bytes = mapped.bytes();
  const bool hdf5 = bytes.size() >= kHdf5.size() && std::memcmp(bytes.data(), kHdf5.data(), kHdf5.size()) == 0;
  return hdf5 ? open_hdf5(path) : open_safetensors(path);
}

const TensorView& find(const Source& source, const std::string& name, std::size_t rank) {
  const auto found = source.tensors.find(name);
  if (found == source.tensors.end()) {
    throw input_error(
        fmt::format("{}: no tensor {}: a trace holds input_ids, positions, target_hidden and target_logits "
                    "(or top_ids and top_log_probabilities)",
                    source.file, name));
  }
  if (found->second.shape.size() != rank) {
    throw input_error(fmt::format("{}: tensor {} is {}; {} dimension{} expected", source.file, name,
                                  to_string(found->second.shape), rank, rank == 1 ? " was" : "s were"));
  }
  return found->second;
}

template <class Number>
Number metadata(const Source& source, const std::string& key, Number fallback) {
  const auto found = source.metadata.find(key);
  if (found == source.metadata.end()) return fallback;
  Number value{};
  const auto& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw input_error(fmt::format("{}: metadata {} is '{}': a number was expected", source.file, key, text));
  }
  return value;
}

TraceOrigin origin_of(const Source& source) {
  const auto found = source.metadata.find("generated");
  if (found == source.metadata.end()) return TraceOrigin::natural;
  if (found->second == "greedy") return TraceOrigin::greedy;
  if (found->second == "sampled") return TraceOrigin::sampled;
  throw input_error(
      fmt::format("{}: metadata generated is '{}': greedy or sampled was expected", source.file, found->second));
}

void require_f32(const Source& source, const TensorView& tensor) {
  if (tensor.dtype == Dtype::f32) return;
  throw input_error(fmt::format("{}: tensor {} holds {}: F32 was expected", source.file, tensor.name,
                                safetensors_name(tensor.dtype)));
}

Tensor copy_of(const TensorView& view) { return {view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}}; }

void read_top(const Source& source, TargetTrace& trace) {
  const auto& ids = find(source, "top_ids", 2);
  const auto& values = find(source, "top_log_probabilities", 2);
  require_f32(source, values);
  if (ids.shape != values.shape || ids.shape[0] != trace.tokens()) {
    throw input_error(fmt::format("{}: top_ids is {}, top_log_probabilities {}: both should be [{}, N]", source.file,
                                  to_string(ids.shape), to_string(values.shape), trace.tokens()));
  }
  for (const auto id : to_i64(ids)) trace.top_ids.push_back(static_cast<std::int32_t>(id));
  trace.top_log_probabilities = to_f32(values);
  trace.top_n = ids.shape[1];
  trace.vocabulary = metadata<std::size_t>(source, "vocab_size", 0);
  if (trace.vocabulary == 0 || trace.top_n == 0) {
    throw input_error(
        fmt::format("{}: a trace of top-N log-probabilities states vocab_size in its metadata", source.file));
  }
}

}  // namespace

TargetTrace read_target_trace(const std::filesystem::path& path) {
  const Source source = open_any(path);
  TargetTrace trace;
  trace.name = source.file;
  trace.storage = source.storage;
  trace.origin = origin_of(source);
  trace.temperature = metadata<double>(source, "temperature", 1.0);
  trace.prompt_length = metadata<std::size_t>(source, "prompt_length", 0);
  trace.input_ids = to_i64(find(source, "input_ids", 1));
  trace.positions = to_i64(find(source, "positions", 1));
  const auto& hidden = find(source, "target_hidden", 2);
  if (!is_floating(hidden.dtype)) {
    throw input_error(fmt::format("{}: tensor target_hidden holds {}: a float type was expected", source.file,
                                  safetensors_name(hidden.dtype)));
  }
  trace.target_hidden = copy_of(hidden);
  if (!source.tensors.contains("target_logits") && source.tensors.contains("top_ids")) {
    read_top(source, trace);
    return trace;
  }
  trace.target_logits = find(source, "target_logits", 2);
  require_f32(source, trace.target_logits);
  if (trace.target_logits.shape[0] != trace.tokens()) {
    throw input_error(fmt::format("{}: tensor target_logits is {}: {} rows were expected, one a token", source.file,
                                  to_string(trace.target_logits.shape), trace.tokens()));
  }
  trace.vocabulary = trace.target_logits.shape[1];
  return trace;
}

}  // namespace mtpcheck
