#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mtpcheck::cli {

/// A path and how the command line names it: {"--out", "dump.safetensors"}. An empty path was not given.
struct NamedPath {
  std::string name;
  std::string path;
};

/// Throws Error{usage}, which names both, where an output is an input, another output, or one of the files that an
/// input's folder consists of: writing would destroy it. Devices and pipes may be named as often as one likes.
void require_apart(const std::vector<NamedPath>& outputs, const std::vector<NamedPath>& inputs);

/// Whether two paths lead to one file, be it there or yet to be written, by whatever links.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// Whether `path`, which need not exist, would lie below `folder`.
bool lies_inside(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace mtpcheck::cli
