#include "cuda/simt/barriers.h"

#include "cuda/simt/machine/block.h"

namespace simt::machine {

Votes block_barrier(const char* operation, bool predicate, const Location& where) {
  return current_block(operation).wait_for_block({operation, where}, predicate);
}

void warp_barrier(const char* operation, unsigned mask, const Location& where) {
  current_block(operation).wait_for_warp(
      {operation, where}, mask, nullptr,
      [](Block& block, void* const*, unsigned lanes) { block.note_warp_barrier(lanes); });
}

void fence() { current_block("__threadfence").note_fence(); }

void yield() { current_block("__nanosleep").yield(); }

}  // namespace simt::machine

namespace simt::memory {

void* static_shared(const Declaration& declaration) {
  machine::Block& block = machine::current_block("SIMT_SHARED");
  void* array = block.shared().find(declaration);
  if (array == nullptr)
    block.fail(block.thread(),
               std::string("shared array ") + declaration.name + " exceeds the 227 KiB that a block may have");
  return array;
}

void* dynamic_shared() { return machine::current_block("SIMT_DYNAMIC_SHARED").shared().dynamic(); }

}  // namespace simt::memory
