#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cuda/simt/qualifiers.h"

namespace simt::machine {

/// The shared memory of one block: the dynamic part first, then one array for each declaration that a thread has come
/// by, all with guard bytes between them. AddressSanitizer builds poison whatever is not part of an array.
class SharedMemory {
 public:
  static constexpr std::size_t limit =
      std::size_t{227} * 1024;  ///< what a block may have on sm_90 and sm_100; 163 KiB on sm_80

  /// A named array, for reports.
  struct Array {
    std::string name;
    std::byte* begin;
    std::size_t bytes;
    const memory::Declaration* declaration;  ///< null for the dynamic part
  };

  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Forgets all arrays and makes room for the dynamic part.
  void lay_out(std::size_t dynamic_bytes);
  /// Fills every array with 0xFF: NaN in float, double, half, bfloat16 and float8, −1 in integers.
  void poison();

  void* dynamic() const { return base_ + leading_bytes; }
  /// The block's array for `declaration`, laid out on first sight; null where it would exceed `limit`.
  void* find(const memory::Declaration& declaration);

  bool contains(const void* address) const { return address >= base_ && address < base_ + capacity; }
  const std::vector<Array>& arrays() const { return arrays_; }

 private:
  static constexpr std::size_t guard_bytes = 256;      ///< between arrays
  static constexpr std::size_t leading_bytes = 65536;  ///< before the first: negative indices are found too
  static constexpr std::size_t capacity = std::size_t{1024} * 1024;

  std::byte* append(const std::string& name, std::size_t bytes, std::size_t alignment,
                    const memory::Declaration* declaration);

  std::byte* base_;
  std::size_t used_ = 0;      ///< from base_, guards included
  std::size_t declared_ = 0;  ///< bytes of all arrays
  std::vector<Array> arrays_;
};

}  // namespace simt::machine
