#include "cuda/simt/machine/thread.h"

#include <fmt/format.h>

#include <string_view>

#include "cuda/simt/machine/symbols.h"

namespace simt::machine {

std::string Place::describe() const {
  return fmt::format("{} at {}:{}:{}", operation, readable_path(where.file_name()), where.line(), where.column());
}

bool Place::same_as(const Place& other) const {
  const auto same = [](const char* x, const char* y) { return x == y || std::string_view(x) == y; };
  return where.line() == other.where.line() && where.column() == other.where.column() &&
         same(operation, other.operation) && same(where.file_name(), other.where.file_name());
}

uint3 unravel(std::uint64_t linear, const dim3& extent) {
  const std::uint64_t plane = static_cast<std::uint64_t>(extent.x) * extent.y;
  return {static_cast<unsigned>(linear % extent.x), static_cast<unsigned>(linear / extent.x % extent.y),
          static_cast<unsigned>(linear / plane)};
}

std::string coordinates(const uint3& index) { return fmt::format("({},{},{})", index.x, index.y, index.z); }

std::string Thread::name() const { return coordinates(index); }

std::string Thread::describe() const {
  if (state == State::exited) return fmt::format("thread {} has exited", name());
  if (state == State::ready) return fmt::format("thread {} is running", name());
  if (state == State::at_warp_operation)
    return fmt::format("thread {} waits in {} with mask {:#010x}", name(), place.describe(), mask);
  return fmt::format("thread {} waits in {}", name(), place.describe());
}

}  // namespace simt::machine
