#include "harness/faults/edit/editable_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <system_error>

#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/safetensors/writer.h"
#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"
#include "reports/atomic_file.h"

namespace mtpcheck {
namespace {

void write_json(const std::filesystem::path& path, const nlohmann::json& json) {
  const std::string text = json.dump(2) + "\n";
  reports::write_atomically(path, text);
}

template <class Stored, class Encode>
void store_as(Tensor& tensor, const std::vector<float>& values, Encode encode) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Stored stored = encode(values[i]);
    std::memcpy(tensor.bytes.data() + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

void store(Tensor& tensor, const std::vector<float>& values) {
  switch (tensor.dtype) {
    case Dtype::bf16:
      return store_as<std::uint16_t>(tensor, values, f32_to_bf16);
    case Dtype::f32:
      return store_as<float>(tensor, values, [](float value) { return value; });
    case Dtype::f8_e4m3:
      return store_as<std::uint8_t>(tensor, values, f32_to_e4m3);
    case Dtype::u8:
      return store_as<std::uint8_t>(tensor, values, [](float value) { return static_cast<std::uint8_t>(value); });
    default:
      throw input_error(fmt::format("no edit stores values as {}", torch_name(tensor.dtype)));
  }
}

std::size_t row_bytes(const Tensor& tensor) {
  return tensor.shape.empty() || tensor.shape[0] == 0 ? 0 : tensor.bytes.size() / tensor.shape[0];
}

// The uppermost folder that has to be made so that `folder` is there; empty where it is.
std::filesystem::path first_missing(const std::filesystem::path& folder) {
  std::filesystem::path missing;
  std::filesystem::path at = std::filesystem::absolute(folder).lexically_normal();
  if (!at.has_filename()) at = at.parent_path();
  for (; !std::filesystem::exists(at); at = at.parent_path()) missing = at;
  return missing;
}

void write_files(const EditableCheckpoint& checkpoint, const std::filesystem::path& folder) {
  write_json(folder / "config.json", checkpoint.config);
  if (!checkpoint.conventions.is_null()) write_json(folder / "mtpcheck.json", checkpoint.conventions);
  std::map<std::string, std::vector<TensorView>> files;
  nlohmann::json weight_map = nlohmann::json::object();
  std::size_t total = 0;
  for (const auto& tensor : checkpoint.tensors) {
    files[tensor.file].push_back(tensor.tensor.view(tensor.name));
    weight_map[tensor.name] = tensor.file;
    total += tensor.tensor.bytes.size();
  }
  for (auto& [file, tensors] : files) write_safetensors(folder / file, std::move(tensors), {{"format", "pt"}});
  if (checkpoint.index) {
    if (!checkpoint.index->empty()) weight_map = *checkpoint.index;
    write_json(folder / "model.safetensors.index.json",
               {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}});
  }
  for (const auto& spoil : checkpoint.spoil) spoil(folder);
}

}  // namespace

EditableTensor* EditableCheckpoint::find(const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &EditableTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

EditableTensor& EditableCheckpoint::at(const std::string& name) {
  EditableTensor* const found = find(name);
  if (found == nullptr)
    throw input_error(fmt::format("the checkpoint has no tensor {}: the fault does not fit it", name));
  return *found;
}

EditableCheckpoint read_editable(const std::filesystem::path& path) {
  const Checkpoint checkpoint = open_checkpoint(path);
  require_sound(checkpoint);
  if (checkpoint.headers_only) {
    throw input_error(fmt::format("{}: holds headers only; an edit needs the data, a checkpoint's folder was expected",
                                  path.string()));
  }
  EditableCheckpoint editable{checkpoint.config, checkpoint.conventions, {}, std::nullopt, {}};
  for (const auto& tensor : checkpoint.headers.tensors) {
    editable.tensors.push_back(
        {tensor.name, tensor.file, {tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}}});
  }
  if (checkpoint.headers.indexed_files) editable.index.emplace();
  return editable;
}

void write_checkpoint(const EditableCheckpoint& checkpoint, const std::filesystem::path& folder) {
  const std::filesystem::path made = first_missing(folder);
  try {
    std::filesystem::create_directories(folder);
    write_files(checkpoint, folder);
  } catch (...) {
    std::error_code none;  // the failure that led here is the one to report
    if (!made.empty()) std::filesystem::remove_all(made, none);
    throw;
  }
}

void drop(EditableCheckpoint& checkpoint, const std::string& name) {
  checkpoint.at(name);
  std::erase_if(checkpoint.tensors, [&](const EditableTensor& tensor) { return tensor.name == name; });
}

void rename(EditableCheckpoint& checkpoint, const std::string& from, const std::string& to) {
  checkpoint.at(from).name = to;
}

void rename_prefix(EditableCheckpoint& checkpoint, const std::string& prefix, const std::string& to) {
  bool any = false;
  for (auto& tensor : checkpoint.tensors) {
    if (!tensor.name.starts_with(prefix)) continue;
    tensor.name = to + tensor.name.substr(prefix.size());
    any = true;
  }
  if (!any) throw input_error(fmt::format("no tensor begins with {}: the fault does not fit it", prefix));
}

void add(EditableCheckpoint& checkpoint, const std::string& name, const std::string& beside, Tensor tensor) {
  const std::string file = checkpoint.at(beside).file;
  checkpoint.tensors.push_back({name, file, std::move(tensor)});
}

void exchange(EditableCheckpoint& checkpoint, const std::string& a, const std::string& b) {
  std::swap(checkpoint.at(a).tensor.bytes, checkpoint.at(b).tensor.bytes);
}

void transform(Tensor& tensor, const std::function<void(std::vector<float>&)>& change) {
  auto values = to_f32(tensor.view());
  change(values);
  store(tensor, values);
}

Tensor converted(const Tensor& tensor, Dtype dtype) {
  Tensor result = make_tensor(dtype, tensor.shape);
  store(result, to_f32(tensor.view()));
  return result;
}

Tensor slab(const Tensor& tensor, std::size_t index) {
  Tensor result = rows(tensor, index, 1);
  result.shape.erase(result.shape.begin());
  return result;
}

Tensor rows(const Tensor& tensor, std::size_t first, std::size_t count) {
  const std::size_t bytes = row_bytes(tensor);
  Tensor result{tensor.dtype, tensor.shape, {}};
  result.shape[0] = count;
  const auto begin = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(first * bytes);
  result.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(count * bytes));
  return result;
}

Tensor transposed(const Tensor& tensor) {
  Tensor result = tensor;
  const std::size_t r = tensor.shape[tensor.shape.size() - 2];
  const std::size_t c = tensor.shape.back();
  std::swap(result.shape[tensor.shape.size() - 2], result.shape.back());
  const std::size_t element = bits_of(tensor.dtype) / 8;
  const std::size_t slabs = r * c == 0 ? 0 : tensor.elements() / (r * c);
  for (std::size_t s = 0; s < slabs; ++s) {
    for (std::size_t i = 0; i < r; ++i) {
      for (std::size_t j = 0; j < c; ++j) {
        std::memcpy(result.bytes.data() + ((s * c + j) * r + i) * element,
                    tensor.bytes.data() + ((s * r + i) * c + j) * element, element);
      }
    }
  }
  return result;
}

}  // namespace mtpcheck
