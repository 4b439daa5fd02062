#include "cuda/simt/checking/allocations.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "cuda/simt/global_memory.h"

namespace simt {
namespace checking {

Allocations& Allocations::instance() {
  static Allocations all;
  return all;
}

void Allocations::add(std::uintptr_t begin, std::size_t bytes, std::string name) {
  const std::unique_lock lock(mutex_);
  by_begin_[begin] = Allocation{std::move(name), begin, bytes, std::vector<std::uint8_t>(bytes, 0)};
}

void Allocations::remove(std::uintptr_t begin) {
  const std::unique_lock lock(mutex_);
  by_begin_.erase(begin);
  ++generation_;
}

Allocation* Allocations::find(std::uintptr_t address) {
  // A kernel walks along a handful of allocations: the latest are looked at first, without the lock.
  struct Recent {
    std::array<Allocation*, 8> allocations{};
    std::size_t next = 0;
    std::uint64_t generation = 0;
  };
  thread_local Recent recent;
  if (const std::uint64_t generation = generation_.load(); recent.generation != generation)
    recent = Recent{.generation = generation};
  for (Allocation* candidate : recent.allocations)
    if (candidate != nullptr && address - candidate->begin < candidate->bytes) return candidate;

  const std::shared_lock lock(mutex_);
  const auto next = by_begin_.upper_bound(address + guard_bytes);
  if (next == by_begin_.begin()) return nullptr;
  Allocation& candidate = std::prev(next)->second;
  if (address >= candidate.begin + candidate.bytes + guard_bytes) return nullptr;
  recent.allocations[recent.next++ % recent.allocations.size()] = &candidate;
  return &candidate;
}

}  // namespace checking

namespace memory {
namespace {

// AddressSanitizer guards an allocation better if it is no larger than asked for.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t guard = 0;
#else
constexpr std::size_t guard = checking::Allocations::guard_bytes;
#endif
constexpr std::size_t alignment = 256;

}  // namespace

void* allocate(std::size_t bytes, std::string name) {
  void* whole = nullptr;
  if (posix_memalign(&whole, alignment, std::max<std::size_t>(bytes + 2 * guard, 1)) != 0) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(whole) + guard;
  std::memset(whole, 0xFF, bytes + 2 * guard);
  checking::Allocations::instance().add(reinterpret_cast<std::uintptr_t>(begin), bytes, std::move(name));
  return begin;
}

void release(void* memory) {
  if (memory == nullptr) return;
  checking::Allocations::instance().remove(reinterpret_cast<std::uintptr_t>(memory));
  std::free(static_cast<std::byte*>(memory) - guard);
}

void mark_written(const void* memory, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  checking::Allocation* allocation = checking::Allocations::instance().find(address);
  if (allocation == nullptr || address < allocation->begin) return;
  const std::size_t first = address - allocation->begin;
  const auto written = allocation->written.begin();
  std::fill(written + static_cast<std::ptrdiff_t>(first),
            written + static_cast<std::ptrdiff_t>(std::min(first + bytes, allocation->bytes)), std::uint8_t{1});
}

}  // namespace memory
}  // namespace simt
