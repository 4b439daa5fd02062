#include "harness/parity/dump/dump_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "harness/inputs/tensor_file.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

namespace fs = std::filesystem;

/// Copies; a path in an HDF5 file with '.' for '/'.
std::map<std::string, Tensor> read_tensors(const fs::path& path) {
  const TensorFile file = open_tensor_file(path);
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, view] : file.tensors) {
    std::string dotted = name;
    std::ranges::replace(dotted, '/', '.');
    tensors.emplace(std::move(dotted), Tensor{view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}});
  }
  return tensors;
}

void add_rank(Dump& dump, std::map<std::string, Tensor>&& tensors) {
  for (auto& [name, tensor] : tensors) dump[name].ranks.push_back(std::move(tensor));
}

std::optional<std::size_t> rank_of(const fs::path& path) {
  const std::string name = path.filename().string();
  constexpr std::string_view kWord = "rank";
  for (auto at = name.find(kWord); at != std::string::npos; at = name.find(kWord, at + 1)) {
    auto begin = at + kWord.size();
    if (begin < name.size() && std::string_view("-_.").find(name[begin]) != std::string_view::npos) ++begin;
    const auto end = std::min(name.find_first_not_of("0123456789", begin), name.size());
    if (begin < end) return std::stoul(name.substr(begin, std::min<std::size_t>(end - begin, 4)));
  }
  return std::nullopt;
}

std::vector<fs::path> files_with(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

Dump read_ranks(const fs::path& folder, std::vector<fs::path> files) {
  if (files.size() > 1) {
    for (const auto& file : files) {
      if (!rank_of(file)) {
        throw input_error(
            fmt::format("{}: several safetensors files, and no rank in the name of {}. Name them "
                        "rank0.safetensors, rank1.safetensors, …, or give one file.",
                        folder.string(), file.filename().string()));
      }
    }
    std::ranges::sort(files, {}, [](const fs::path& file) { return *rank_of(file); });
  }
  Dump dump;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files.size() > 1 && *rank_of(files[i]) != i) {
      throw input_error(fmt::format("{}: rank {} is missing; found {} files", folder.string(), i, files.size()));
    }
    add_rank(dump, read_tensors(files[i]));
  }
  return dump;
}

Dump read_folder(const fs::path& folder) {
  const auto arrays = files_with(folder, ".npy");
  const auto shards = files_with(folder, ".safetensors");
  if (!arrays.empty() && !shards.empty()) {
    throw input_error(folder.string() + ": holds .npy and .safetensors files; expected one kind");
  }
  if (!shards.empty()) return read_ranks(folder, shards);
  if (arrays.empty()) throw input_error(folder.string() + ": no .npy and no .safetensors file in it");
  Dump dump;
  for (const auto& file : arrays) dump[file.stem().string()].ranks.push_back(read_npy(file));
  return dump;
}

}  // namespace

Dump read_dump(const fs::path& path) {
  if (fs::is_directory(path)) return read_folder(path);
  if (!fs::exists(path)) throw input_error(path.string() + ": no such file or folder");
  const std::string extension = path.extension().string();
  Dump dump;
  if (extension == ".safetensors" || extension == ".h5" || extension == ".hdf5") {
    add_rank(dump, read_tensors(path));
  } else {
    throw input_error(path.string() + ": expected .safetensors, .h5, .hdf5, or a folder of .npy files");
  }
  return dump;
}

}  // namespace mtpcheck
