#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "harness/checkpoint/problem.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// Headers longer than this are refused, as the safetensors library itself does.
inline constexpr std::uint64_t kMaxHeaderLength = 100'000'000;

/// A header of which every entry has been checked: known dtypes, shapes that do not overflow, sizes that fit their
/// ranges, and ranges that fill the data without overlap, hole or rest.
struct SafetensorsHeader {
  std::vector<TensorView> tensors;  ///< sorted by name; `file` and `offset` (in the file) set, `bytes` empty
  std::uint64_t data_start = 0;     ///< first byte after the header
  std::map<std::string, std::string> metadata;
};

/// Reads headers one after another, keeping the JSON parser's memory.
class HeaderReader {
 public:
  HeaderReader();
  HeaderReader(HeaderReader&&) noexcept;
  HeaderReader& operator=(HeaderReader&&) noexcept;
  HeaderReader(const HeaderReader&) = delete;
  HeaderReader& operator=(const HeaderReader&) = delete;
  ~HeaderReader();

  /// The header of a safetensors file, or the first thing that is wrong with it (`corrupt-header`, or `truncated` where
  /// only the end of the file is missing). Reads nothing but the header; never throws for what the bytes hold.
  ///
  /// bytes   the whole file; an offset that is no multiple of the element size is legal
  /// file    its name, for the views and the messages
  std::variant<SafetensorsHeader, Problem> read(std::span<const std::byte> bytes, const std::string& file);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace mtpcheck
