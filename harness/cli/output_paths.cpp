#include "harness/cli/output_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>

#include "reference/tensor/error.h"

namespace mtpcheck::cli {
namespace {

namespace fs = std::filesystem;

// /dev/stdout may lead to a regular file, so devices are known by where they are named as well as by what they are.
bool is_device(const std::string& path) {
  std::error_code none;
  const fs::file_status status = fs::status(path, none);
  return path.starts_with("/dev/") || path.starts_with("/proc/") || fs::is_character_file(status) ||
         fs::is_fifo(status) || fs::is_socket(status);
}

// What a checkpoint or a dump consists of. Other files beside it are somebody's earlier outputs, which may be replaced.
bool is_data(const fs::path& file) {
  constexpr std::array<std::string_view, 6> kNames{"config.json",   "generation_config.json", "hf_quant_config.json",
                                                   "mtpcheck.json", "tokenizer.json",         "tokenizer_config.json"};
  const std::string name = file.filename().string();
  return name.ends_with(".safetensors") || name.ends_with(".npy") || name.ends_with(".index.json") ||
         std::ranges::find(kNames, name) != kNames.end();
}

// A folder's files may be links to elsewhere, and their targets are as worth keeping.
bool is_a_file_of(const fs::path& output, const fs::path& folder) {
  std::error_code none;
  if (!fs::is_directory(folder, none) || !fs::exists(output, none)) return false;
  if (lies_inside(output, folder)) return is_data(output);
  const fs::directory_iterator files(folder, fs::directory_options::skip_permission_denied, none);
  return std::any_of(begin(files), end(files), [&](const auto& file) { return same_file(output, file.path()); });
}

void require_no_input(const NamedPath& output, const NamedPath& input) {
  if (input.path.empty()) return;
  if (same_file(output.path, input.path)) {
    throw usage_error(fmt::format("{} {} would overwrite {} {}: another file was expected", output.name, output.path,
                                  input.name, input.path));
  }
  if (is_a_file_of(output.path, input.path)) {
    throw usage_error(fmt::format("{} {} would overwrite a file of {} {}: a path outside it was expected", output.name,
                                  output.path, input.name, input.path));
  }
}

}  // namespace

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code none;
  if (fs::equivalent(a, b, none)) return true;
  const fs::path first = fs::weakly_canonical(fs::absolute(a, none), none);
  return !first.empty() && first == fs::weakly_canonical(fs::absolute(b, none), none);
}

void require_apart(const std::vector<NamedPath>& outputs, const std::vector<NamedPath>& inputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    if (output->path.empty() || is_device(output->path)) continue;
    for (const auto& input : inputs) require_no_input(*output, input);
    for (auto other = outputs.begin(); other != output; ++other) {
      if (other->path.empty() || !same_file(output->path, other->path)) continue;
      throw usage_error(fmt::format("{} {} and {} {} are one file: two were expected", other->name, other->path,
                                    output->name, output->path));
    }
  }
}

bool lies_inside(const fs::path& path, const fs::path& folder) {
  std::error_code none;
  // The parent's links are followed and not the path's own: replacing a link inside the folder changes the folder.
  const fs::path parent = fs::absolute(path, none).parent_path();
  for (fs::path at = fs::weakly_canonical(parent, none); !at.empty(); at = at.parent_path()) {
    if (fs::equivalent(at, folder, none)) return true;
    if (at == at.root_path()) return false;
  }
  return false;
}

}  // namespace mtpcheck::cli
