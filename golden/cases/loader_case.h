#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "golden/cases/case_text.h"
#include "golden/cases/forward_case.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck::golden {

/// A checkpoint of golden/loader, and how the engine was asked to load it.
struct LoaderCase {
  std::string name;
  std::string about;
  nlohmann::json config;
  std::map<std::string, Tensors> files;                          ///< file name → its tensors
  std::optional<std::map<std::string, std::string>> weight_map;  ///< tensor → file; nullopt: no index

  std::size_t tp_size = 1;
  std::size_t tp_rank = 0;
  bool expert_parallel = false;
  std::string kv_cache_dtype = "auto";

  /// Keys that were set in the engine after it had read (and checked) the config.
  std::vector<std::pair<std::string, nlohmann::json>> set_in_engine;
};

/// The cases of golden/loader.
class LoaderCases {
 public:
  /// folder  golden/loader
  explicit LoaderCases(std::filesystem::path folder);

  std::vector<std::string> names() const;

  /// Builds a case: its parent's tensors, edited line by line. Throws std::exception where the text is wrong.
  LoaderCase read(const std::string& name) const;

  const std::vector<CaseLine>& lines(const std::string& name) const { return lines_.at(name); }

 private:
  struct Built {
    nlohmann::json config;
    Tensors tensors;
  };
  Built build(const std::string& name) const;
  Tensors own_tensors(const std::string& name) const;

  std::filesystem::path folder_;
  std::map<std::string, std::vector<CaseLine>> lines_;
};

/// A safetensors file of these tensors in the library's own order (wide types first, then by name), byte for byte what
/// safetensors 0.8 writes.
std::string safetensors_file(const Tensors& tensors);

/// Writes config.json, the files and the index into a directory that exists.
void write_checkpoint(const LoaderCase& loader_case, const std::filesystem::path& directory);

}  // namespace mtpcheck::golden
