#include "harness/acceptance/trace/trace_file.h"

#include <fmt/format.h>

#include <charconv>

#include "harness/inputs/tensor_file.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

const TensorView& find(const TensorFile& source, const std::string& name, std::size_t rank) {
  const TensorView* const found = source.find(name);
  if (found == nullptr) {
    throw input_error(
        fmt::format("{}: no tensor {}: a trace holds input_ids, positions, target_hidden and target_logits "
                    "(or top_ids and top_log_probabilities)",
                    source.file, name));
  }
  if (found->shape.size() != rank) {
    throw input_error(fmt::format("{}: tensor {} is {}; {} dimension{} expected", source.file, name,
                                  to_string(found->shape), rank, rank == 1 ? " was" : "s were"));
  }
  return *found;
}

template <class Number>
Number metadata(const TensorFile& source, const std::string& key, Number fallback) {
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

TraceOrigin origin_of(const TensorFile& source) {
  const auto found = source.metadata.find("generated");
  if (found == source.metadata.end()) return TraceOrigin::natural;
  if (found->second == "greedy") return TraceOrigin::greedy;
  if (found->second == "sampled") return TraceOrigin::sampled;
  throw input_error(
      fmt::format("{}: metadata generated is '{}': greedy or sampled was expected", source.file, found->second));
}

void require_f32(const TensorFile& source, const TensorView& tensor) {
  if (tensor.dtype == Dtype::f32) return;
  throw input_error(fmt::format("{}: tensor {} holds {}: F32 was expected", source.file, tensor.name,
                                safetensors_name(tensor.dtype)));
}

Tensor copy_of(const TensorView& view) { return {view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}}; }

void read_top(const TensorFile& source, TargetTrace& trace) {
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
  if (source.tensors.contains("remaining_mass")) {
    const auto& rest = find(source, "remaining_mass", 1);
    require_f32(source, rest);
    if (rest.shape[0] != trace.tokens()) {
      throw input_error(fmt::format("{}: remaining_mass is {}: [{}] was expected", source.file, to_string(rest.shape),
                                    trace.tokens()));
    }
    trace.remaining_mass = to_f32(rest);
  }
  trace.vocabulary = metadata<std::size_t>(source, "vocab_size", 0);
  if (trace.vocabulary == 0 || trace.top_n == 0) {
    throw input_error(
        fmt::format("{}: a trace of top-N log-probabilities states vocab_size in its metadata", source.file));
  }
}

}  // namespace

TargetTrace read_target_trace(const std::filesystem::path& path) {
  const TensorFile source = open_tensor_file(path);
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
