#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace simt::machine {

/// Stacks of equal size in one mapping, each above a page that faults when a thread overflows its stack.
class StackSlab {
 public:
  StackSlab(std::size_t stacks, std::size_t stack_bytes);
  ~StackSlab();
  StackSlab(const StackSlab&) = delete;
  StackSlab& operator=(const StackSlab&) = delete;

  /// Puts up the guard page of stack `index` and returns where the stack begins.
  std::byte* claim(std::size_t index) const;
  std::size_t stack_bytes() const { return stack_bytes_; }
  /// Whose stack an address of the slab is in.
  std::size_t owner(const void* address) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_) / stride_;
  }
  bool contains(const void* address) const { return address >= base_ && address < base_ + stacks_ * stride_; }

 private:
  std::size_t stacks_;
  std::size_t stack_bytes_;
  std::size_t stride_;
  std::byte* base_;
};

/// A body with a stack of its own that runs until it suspends itself. AddressSanitizer is told of every switch.
class Fiber {
 public:
  /// The first resume() starts `body`; whenever it has returned, the next resume() starts it again.
  Fiber(const StackSlab& slab, std::size_t index, std::function<void()> body);
  /// `body` must not be suspended in the middle.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// From outside: runs the body until it suspends or returns.
  void resume();
  /// From inside: back to the caller of resume().
  void suspend();
  /// From outside: forgets a suspended body, without unwinding its stack; what it owned is leaked.
  void restart();

 private:
  void create();
  boost::context::fiber enter(boost::context::fiber&& outside);

  std::function<void()> body_;
  std::byte* stack_;
  std::size_t stack_bytes_;
  bool closing_ = false;
  boost::context::fiber inside_;
  boost::context::fiber outside_;
  void* inside_frames_ = nullptr;  // AddressSanitizer's fake stacks and the scheduler's real one
  void* outside_frames_ = nullptr;
  const void* outside_stack_ = nullptr;
  std::size_t outside_stack_bytes_ = 0;
};

// What AddressSanitizer wants to know of a switch.
inline void start_switch([[maybe_unused]] void** frames_to_save, [[maybe_unused]] const void* stack,
                         [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(frames_to_save, stack, bytes);
#endif
}

inline void finish_switch([[maybe_unused]] void* frames, [[maybe_unused]] const void** old_stack,
                          [[maybe_unused]] std::size_t* old_bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(frames, old_stack, old_bytes);
#endif
}

// Inline: after a switch the processor predicts no return, so every call less on the way saves one misprediction.
inline void Fiber::resume() {
  start_switch(&outside_frames_, stack_, stack_bytes_);
  inside_ = std::move(inside_).resume();
  finish_switch(outside_frames_, nullptr, nullptr);
}

inline void Fiber::suspend() {
  start_switch(&inside_frames_, outside_stack_, outside_stack_bytes_);
  outside_ = std::move(outside_).resume();
  finish_switch(inside_frames_, &outside_stack_, &outside_stack_bytes_);
}

}  // namespace simt::machine
