#include "cuda/simt/machine/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/stack_context.hpp>
#include <memory>
#include <new>
#include <utility>

namespace simt::machine {
namespace {

/// The slab owns the memory; Boost only asks to be given the stack back.
struct BorrowedStack {
  void deallocate(boost::context::stack_context& /*stack*/) {}
};

/// How far below its end a stack begins. Stacks that all began at the same offset within a page would compete for the
/// same few sets of the caches; a block's threads touch all of them in turn.
constexpr std::size_t stagger(std::size_t index) {
  constexpr std::size_t line = 64;
  constexpr std::size_t lines_of_a_page = 64;
  return index * 17 % lines_of_a_page * line;
}

}  // namespace

StackSlab::StackSlab(std::size_t stacks, std::size_t stack_bytes) : stacks_(stacks) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  stack_bytes_ = (stack_bytes + page - 1) / page * page;
  stride_ = stack_bytes_ + page;
  void* mapping = mmap(nullptr, stacks * stride_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(mapping);
}

StackSlab::~StackSlab() { munmap(base_, stacks_ * stride_); }

std::byte* StackSlab::claim(std::size_t index) const {
  std::byte* const guard = base_ + index * stride_;
  const std::size_t guard_bytes = stride_ - stack_bytes_;
  mprotect(guard, guard_bytes, PROT_NONE);
  return guard + guard_bytes;
}

Fiber::Fiber(const StackSlab& slab, std::size_t index, std::function<void()> body)
    : body_(std::move(body)), stack_(slab.claim(index)), stack_bytes_(slab.stack_bytes() - stagger(index)) {
  create();
}

void Fiber::create() {
  boost::context::stack_context stack;
  stack.sp = stack_ + stack_bytes_;
  stack.size = stack_bytes_;
  inside_ = boost::context::fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
                                  BorrowedStack{},
                                  [this](boost::context::fiber&& outside) { return enter(std::move(outside)); });
}

void Fiber::restart() {
  // Never deleted: its destructor would unwind the stack.
  [[maybe_unused]] const auto* abandoned = new boost::context::fiber(std::move(inside_));
  create();  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks)
}

Fiber::~Fiber() {
  closing_ = true;
  resume();
}

boost::context::fiber Fiber::enter(boost::context::fiber&& outside) {
  outside_ = std::move(outside);
  finish_switch(nullptr, &outside_stack_, &outside_stack_bytes_);
  while (!closing_) {
    body_();
    suspend();
  }
  start_switch(nullptr, outside_stack_, outside_stack_bytes_);  // null: this stack's frames are gone for good
  return std::move(outside_);
}

}  // namespace simt::machine
