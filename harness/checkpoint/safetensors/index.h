#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "harness/checkpoint/problem.h"

namespace mtpcheck {

/// An index beyond this is refused; one entry takes about 100 bytes.
inline constexpr std::size_t kMaxIndexLength = std::size_t{256} << 20;

/// model.safetensors.index.json: which shard holds which tensor.
struct SafetensorsIndex {
  std::vector<std::string> files;                        ///< each once, in natural order
  std::unordered_map<std::string, std::uint32_t> shard;  ///< tensor name → index into `files`
};

/// Reads an index; `corrupt-index` for what is none, or names a tensor twice. Within bounds on size and depth.
std::variant<SafetensorsIndex, Problem> read_index(std::span<const std::byte> bytes, const std::string& file);

}  // namespace mtpcheck
