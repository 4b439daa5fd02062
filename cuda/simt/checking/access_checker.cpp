#include "cuda/simt/checking/access_checker.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/simt/machine/symbols.h"

namespace simt::checking {
namespace {

constexpr std::uintptr_t word_bytes = Shadow::word_bytes;

const char* verb(Kind kind) {
  switch (kind) {
    case Kind::read:
      return "reads";
    case Kind::write:
      return "writes";
    case Kind::atomic:
      return "atomically updates";
    case Kind::overwrite:
      return "starts a copy to";
  }
  return "";
}

bool writes(Kind kind) { return kind != Kind::read; }
bool needs_value(Kind kind) { return kind == Kind::read || kind == Kind::atomic; }

bool inside(std::uintptr_t address, std::size_t bytes, std::uintptr_t begin, std::size_t size) {
  return address >= begin && bytes <= size && address - begin <= size - bytes;
}

/// Bit i: byte i of the word at `word` belongs to the access.
std::uint8_t bytes_of_word(std::uintptr_t address, std::size_t bytes, std::uintptr_t word) {
  const std::uintptr_t first = std::max(address, word) - word;
  const std::uintptr_t last = std::min(address + bytes, word + word_bytes) - word;
  return static_cast<std::uint8_t>((1u << last) - (1u << first));
}

/// "reads 4 bytes at offset -4 of shared array tile (256 bytes) at f.cu:9"
std::string describe_access(Kind kind, std::size_t bytes, std::uintptr_t address, std::uintptr_t begin,
                            const std::string& what, std::size_t size, std::uintptr_t site) {
  return fmt::format("{} {} byte{} at offset {} of {} ({} bytes) at {}", verb(kind), bytes, bytes == 1 ? "" : "s",
                     static_cast<std::intptr_t>(address - begin), what, size, machine::source_line(site));
}

std::string name_of_array(const machine::SharedMemory::Array& array) {
  return array.declaration == nullptr ? array.name : "shared array " + array.name;
}

/// threadIdx and the like are variables of this layer, read by all and written by none.
bool is_builtin(std::uintptr_t address) {
  const auto in = [&](const auto& variable) {
    return address - reinterpret_cast<std::uintptr_t>(&variable) < sizeof(variable);
  };
  return in(threadIdx) || in(blockIdx) || in(blockDim) || in(gridDim);
}

}  // namespace

void AccessChecker::begin_grid(const dim3& grid, const dim3& block) {
  grid_ = grid;
  block_ = block;
  blocks_.clear();
  shadow_.trim();
}

void AccessChecker::begin_block(std::uint64_t linear, unsigned threads) {
  order_.begin_block(threads);
  blocks_.push_back({order_.first_interval(), linear, false});
  has_used_atomics_ = false;
}

void AccessChecker::fence() { blocks_.back().fenced = true; }

std::string AccessChecker::access(const machine::Thread& thread, const void* pointer, std::size_t bytes, Kind kind,
                                  std::uintptr_t return_address) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (is_builtin(address)) return {};
  const bool shared = shared_.contains(pointer);
  std::string wrong;
  if (shared) {
    wrong = check_shared(address, bytes, kind, return_address);
  } else if (Allocation* allocation = Allocations::instance().find(address)) {
    wrong = check_allocation(*allocation, address, bytes, kind, return_address);
  }
  if (!wrong.empty()) return wrong;
  if (!shared && kind == Kind::atomic) has_used_atomics_ = true;

  Record mine;
  mine.interval = order_.interval();
  mine.clock = order_.clock(thread.linear);
  mine.site = pack_site(return_address);
  mine.thread = static_cast<std::uint16_t>(thread.linear);
  mine.atomic = kind == Kind::atomic;
  for (std::uintptr_t word = address / word_bytes * word_bytes; word < address + bytes; word += word_bytes) {
    mine.bytes = bytes_of_word(address, bytes, word);
    wrong = check_word(shadow_.at(word), mine, kind, std::max(address, word), shared);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string AccessChecker::check_shared(std::uintptr_t address, std::size_t bytes, Kind kind, std::uintptr_t site) {
  // The guard bytes behind an array are its own: an overrun of one array is the likelier mistake.
  const machine::SharedMemory::Array* array = nullptr;
  for (const auto& candidate : shared_.arrays())
    if (address >= reinterpret_cast<std::uintptr_t>(candidate.begin)) array = &candidate;
  if (array == nullptr)
    return fmt::format("{} {} bytes of shared memory that belong to no array at {}", verb(kind), bytes,
                       machine::source_line(site));
  const auto begin = reinterpret_cast<std::uintptr_t>(array->begin);
  if (!inside(address, bytes, begin, array->bytes))
    return "out of bounds: " + describe_access(kind, bytes, address, begin, name_of_array(*array), array->bytes, site);
  if (!needs_value(kind)) return {};
  for (std::uintptr_t word = address / word_bytes * word_bytes; word < address + bytes; word += word_bytes) {
    const Word& history = shadow_.at(word);
    const std::uint32_t defined = history.defined_in == order_.first_interval() ? history.defined : 0;
    if ((bytes_of_word(address, bytes, word) & ~defined) != 0)
      return "nothing has written what it reads: " +
             describe_access(kind, bytes, address, begin, name_of_array(*array), array->bytes, site);
  }
  return {};
}

std::string AccessChecker::check_allocation(Allocation& allocation, std::uintptr_t address, std::size_t bytes,
                                            Kind kind, std::uintptr_t site) const {
  const std::string what = "global memory " + allocation.name;
  if (!inside(address, bytes, allocation.begin, allocation.bytes))
    return "out of bounds: " + describe_access(kind, bytes, address, allocation.begin, what, allocation.bytes, site);
  const auto first = allocation.written.begin() + static_cast<std::ptrdiff_t>(address - allocation.begin);
  const auto last = first + static_cast<std::ptrdiff_t>(bytes);
  if (needs_value(kind) && std::find(first, last, 0) != last)
    return "nothing has written what it reads: " +
           describe_access(kind, bytes, address, allocation.begin, what, allocation.bytes, site);
  if (writes(kind)) std::fill(first, last, std::uint8_t{1});
  return {};
}

std::string AccessChecker::check_word(Word& word, const Record& mine, Kind kind, std::uintptr_t address, bool shared) {
  if (conflicts(word.write, mine, shared)) return describe_race(word.write, true, mine, kind, address);
  if (!writes(kind)) {
    Record& slot = word.first_read.interval != mine.interval || word.first_read.thread == mine.thread ? word.first_read
                                                                                                      : word.last_read;
    const bool again = slot.interval == mine.interval && slot.thread == mine.thread;
    const std::uint8_t before = again ? slot.bytes : std::uint8_t{0};
    slot = mine;
    slot.bytes |= before;
    return {};
  }
  if (conflicts(word.first_read, mine, shared)) return describe_race(word.first_read, false, mine, kind, address);
  if (conflicts(word.last_read, mine, shared)) return describe_race(word.last_read, false, mine, kind, address);
  const bool again = word.write.interval == mine.interval && word.write.thread == mine.thread;
  const std::uint8_t before = again ? word.write.bytes : std::uint8_t{0};
  word.write = mine;
  word.write.bytes |= before;
  if (word.defined_in != order_.first_interval()) word.defined = 0;
  word.defined_in = order_.first_interval();
  word.defined = kind == Kind::overwrite ? word.defined & ~std::uint32_t{mine.bytes} : word.defined | mine.bytes;
  return {};
}

bool AccessChecker::conflicts(const Record& earlier, const Record& mine, bool shared) const {
  if ((earlier.bytes & mine.bytes) == 0 || (earlier.atomic && mine.atomic)) return false;
  if (earlier.interval >= order_.first_interval())
    return earlier.interval == mine.interval && !order_.ordered(earlier.thread, earlier.clock, mine.thread);
  if (shared || earlier.interval < blocks_.front().first_interval) return false;  // another block's copy; a past launch
  // Another block. "Write, fence, atomic" there and "atomic, read" here is how blocks hand over results.
  return !(block_of(earlier.interval).fenced && has_used_atomics_);
}

const AccessChecker::BlockTime& AccessChecker::block_of(std::uint32_t interval) const {
  const auto next =
      std::upper_bound(blocks_.begin(), blocks_.end(), interval,
                       [](std::uint32_t value, const BlockTime& block) { return value < block.first_interval; });
  return *std::prev(next);
}

std::string AccessChecker::describe_race(const Record& earlier, bool earlier_wrote, const Record& mine, Kind kind,
                                         std::uintptr_t address) const {
  const bool same_block = earlier.interval >= order_.first_interval();
  std::string who = "thread " + machine::coordinates(machine::unravel(earlier.thread, block_));
  if (!same_block)
    who += " of block " + machine::coordinates(machine::unravel(block_of(earlier.interval).linear, grid_));
  return fmt::format("race: {} {} at {}, which {} {} at {} with {} between them", verb(kind), name_of(address),
                     machine::source_line(unpack_site(mine.site)), who,
                     earlier.atomic ? "atomically updates" : (earlier_wrote ? "writes" : "reads"),
                     machine::source_line(unpack_site(earlier.site)),
                     same_block ? "no barrier" : "no launch or fence and atomic");
}

std::string AccessChecker::name_of(std::uintptr_t address) const {
  for (const auto& array : shared_.arrays()) {
    const auto begin = reinterpret_cast<std::uintptr_t>(array.begin);
    if (inside(address, 1, begin, array.bytes))
      return fmt::format("offset {} of {}", address - begin, name_of_array(array));
  }
  if (const Allocation* allocation = Allocations::instance().find(address))
    return fmt::format("offset {} of global memory {}", address - allocation->begin, allocation->name);
  return fmt::format("address {:#x}", address);
}

}  // namespace simt::checking
