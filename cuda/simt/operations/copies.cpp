#include <fmt/format.h>

#include <cstring>

#include "cuda/simt/machine/block.h"
#include "cuda/simt/memory.h"

namespace simt::machine {
namespace {

void carry_out(Block& block, const Copy& copy) {
  block.observe(copy.shared, copy.bytes, checking::Kind::write, copy.caller);
  if (copy.valid) {
    std::memcpy(copy.shared, copy.global, copy.bytes);
  } else {
    std::memset(copy.shared, 0, copy.bytes);
  }
}

}  // namespace

void start_copy(void* shared, const void* global, unsigned bytes, bool valid) {
  Block& block = current_block("copy_async");
  Thread& me = block.thread();
  const auto misaligned = [&](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % bytes != 0; };
  if (!block.shared().contains(shared))
    block.fail(me, fmt::format("copy_async: the destination {} is not in the block's shared memory", shared));
  if (misaligned(shared) || (valid && misaligned(global)))
    block.fail(me, fmt::format("copy_async of {} bytes from {} to {}: both must be multiples of {}", bytes, global,
                               shared, bytes));
  const auto caller = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  if (valid) block.observe(global, bytes, checking::Kind::read, caller);
  block.observe(shared, bytes, checking::Kind::overwrite, caller);
  std::memset(shared, 0xFF, bytes);  // the copy may land at any time from now on
  me.copies.push_back({shared, global, bytes, valid, caller});
}

void commit_copies() {
  Thread& me = current_block("commit_copies").thread();
  me.copy_groups.push_back(me.copies.size());
}

void wait_for_copies(unsigned pending) {
  Block& block = current_block("wait_for_copies");
  Thread& me = block.thread();
  if (me.copy_groups.size() <= pending) return;
  const std::size_t finished_groups = me.copy_groups.size() - pending;
  const std::size_t finished = me.copy_groups[finished_groups - 1];
  for (std::size_t i = 0; i < finished; ++i) carry_out(block, me.copies[i]);
  me.copies.erase(me.copies.begin(), me.copies.begin() + static_cast<std::ptrdiff_t>(finished));
  me.copy_groups.erase(me.copy_groups.begin(), me.copy_groups.begin() + static_cast<std::ptrdiff_t>(finished_groups));
  for (std::size_t& end : me.copy_groups) end -= finished;
}

}  // namespace simt::machine
