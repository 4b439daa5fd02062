#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace simt::checking {

/// What a thread did to some bytes of a word.
struct Record {
  std::uint32_t interval = 0;  ///< between which two barriers of which block; 0: never
  std::uint32_t clock = 0;     ///< of the thread, within the interval
  std::int32_t site = 0;       ///< the instruction, as pack_site() has it
  std::uint16_t thread = 0;    ///< linear in its block
  std::uint8_t bytes = 0;      ///< bit i: byte i of the word
  bool atomic = false;
};

/// The history of four bytes: the last write and, since a reader is forgotten only with its interval, two reads.
struct Word {
  Record write;
  Record first_read;
  Record last_read;
  std::uint32_t defined_in = 0;  ///< the block (by its first interval) whose writes `defined` counts
  std::uint32_t defined = 0;     ///< bytes that hold a value
};

/// A Word for every four bytes of memory that a kernel has touched.
class Shadow {
 public:
  static constexpr std::size_t word_bytes = 4;

  /// The history of the word at `address`, which is a multiple of four.
  Word& at(std::uintptr_t address);
  /// Forgets everything if that is worth the memory.
  void trim();

 private:
  static constexpr std::size_t page_bytes = 4096;
  static constexpr std::size_t cached = 64;
  static constexpr std::size_t most_pages = 8192;  // 32 MiB of memory, 460 MiB of history
  using Page = std::array<Word, page_bytes / word_bytes>;

  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::array<std::uintptr_t, cached> cached_number_{};
  std::array<Page*, cached> cached_page_{};
};

/// Return addresses as differences to a function of this library: four bytes instead of eight.
std::int32_t pack_site(std::uintptr_t return_address);
std::uintptr_t unpack_site(std::int32_t site);

}  // namespace simt::checking
