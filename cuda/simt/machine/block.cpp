#include "cuda/simt/machine/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "cuda/simt/kernel_error.h"
#include "cuda/simt/machine/symbols.h"

namespace simt::machine {
namespace {

/// Unwinds a thread of a block that another thread has failed.
struct Abandoned {};

/// Rounds in which threads did nothing but yield() before they count as spinning for ever.
constexpr unsigned patience = 100000;

thread_local Block* current = nullptr;

template <class Range>
void shuffle_range(Range& range, std::mt19937_64& random) {  // std::shuffle differs between standard libraries
  for (std::size_t i = range.size(); i > 1; --i) std::swap(range[i - 1], range[random() % i]);
}

}  // namespace

Block* Block::current() { return machine::current; }

Block& current_block(const char* operation) {
  Block* block = Block::current();
  if (block == nullptr) throw std::logic_error(fmt::format("{} outside a kernel", operation));
  return *block;
}

Block::Block(std::size_t stack_bytes) : slab_(max_threads, stack_bytes), lane_order_(warp_size) {}

void Block::begin_grid(const Grid& grid, const Options& options, const std::function<void()>& thread) {
  grid_ = grid;
  options_ = options;
  body_ = &thread;
  switches_ = 0;
  const unsigned count = grid.block.x * grid.block.y * grid.block.z;
  threads_.assign(count, {});
  warps_.assign((count + warp_size - 1) / warp_size, {});
  for (unsigned i = static_cast<unsigned>(fibers_.size()); i < count; ++i)
    fibers_.push_back(std::make_unique<Fiber>(slab_, i, [this, i] { thread_body(i); }));
  shared_.lay_out(grid.shared_bytes);
  checking_ = grid.observed && options.check_accesses;
  if (checking_) checker_.begin_grid(grid.grid, grid.block);
  blockDim = grid.block;
  gridDim = grid.grid;
}

void Block::reset(std::uint64_t linear) {
  index_ = unravel(linear, grid_.grid);
  blockIdx = index_;
  std::fill(warps_.begin(), warps_.end(), Warp{});
  for (unsigned i = 0; i < threads_.size(); ++i) {
    Thread& thread = threads_[i];
    thread = Thread{};
    thread.index = unravel(i, grid_.block);
    thread.linear = i;
    thread.lane = i % warp_size;
    thread.warp = i / warp_size;
    thread.state = State::ready;
    warps_[thread.warp].existing |= 1u << thread.lane;
    warps_[thread.warp].ready |= 1u << thread.lane;
  }
  live_ = static_cast<unsigned>(threads_.size());
  at_barrier_ = 0;
  abandoned_ = false;
  error_ = nullptr;
  shared_.poison();
  if (checking_) checker_.begin_block(linear, live_);
  random_.seed(options_.seed * 0x9E3779B97F4A7C15u + linear);
  warp_order_.resize(warps_.size());
  std::iota(warp_order_.begin(), warp_order_.end(), 0u);
  std::iota(lane_order_.begin(), lane_order_.end(), 0u);
  if (options_.order == Order::descending) {
    std::reverse(warp_order_.begin(), warp_order_.end());
    std::reverse(lane_order_.begin(), lane_order_.end());
  }
}

void Block::run(std::uint64_t linear) {
  reset(linear);
  machine::current = this;
  try {
    schedule();
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    abandon();
    machine::current = nullptr;
    std::rethrow_exception(error);
  }
  machine::current = nullptr;
}

inline void Block::resume(Thread& thread) {
  running_ = &thread;
  thread.begun = true;
  threadIdx = thread.index;
  ++switches_;
  fibers_[thread.linear]->resume();
}

inline void Block::suspend() {
  Thread* me = running_;
  fibers_[me->linear]->suspend();
  if (abandoned_) throw Abandoned{};
}

void Block::schedule() {
  unsigned idle_rounds = 0;
  while (live_ > 0) {
    choose_order();
    bool worked = false;
    for (const unsigned warp : warp_order_) worked = run_ready_lanes(warp) || worked;
    bool yielded = false;
    for (Warp& warp : warps_) {
      warp.ready |= std::exchange(warp.yielded, 0u);
      yielded = yielded || warp.ready != 0;
    }
    if (yielded) {
      idle_rounds = worked ? 0 : idle_rounds + 1;
      if (idle_rounds == patience) fail_deadlock();
    } else if (live_ > 0 && at_barrier_ == live_) {
      release_block_barrier();
    } else if (live_ > 0) {
      fail_deadlock();
    }
  }
}

void Block::choose_order() {
  if (options_.order != Order::shuffled) return;
  shuffle_range(warp_order_, random_);
  shuffle_range(lane_order_, random_);
}

/// Runs the warp until all its lanes wait, have yielded or exited; says whether one did more than yield.
bool Block::run_ready_lanes(unsigned warp_index) {
  Warp& warp = warps_[warp_index];
  bool worked = false;
  while (warp.ready != 0) {
    for (const unsigned lane : lane_order_) {
      const unsigned bit = 1u << lane;
      if ((warp.ready & bit) == 0) continue;
      warp.ready &= ~bit;
      Thread& thread = threads_[warp_index * warp_size + lane];
      resume(thread);
      if (error_) std::rethrow_exception(error_);
      worked = worked || (warp.yielded & bit) == 0;
      if (thread.state != State::exited) continue;
      --live_;
      warp.exited |= bit;
    }
  }
  return worked;
}

void Block::thread_body(unsigned linear) {
  try {
    (*body_)();
  } catch (const Abandoned&) {  // the error is another thread's
  } catch (...) {
    if (!error_) error_ = std::current_exception();
  }
  threads_[linear].state = State::exited;
}

void Block::abandon() {
  abandoned_ = true;
  for (Thread& thread : threads_) {
    if (thread.stuck) {
      fibers_[thread.linear]->restart();
    } else if (thread.begun && thread.state != State::exited) {
      resume(thread);
    }
    thread.state = State::exited;
  }
}

Votes Block::wait_for_block(const Place& place, bool predicate) {
  Thread& me = *running_;
  me.place = place;
  me.predicate = predicate;
  me.state = State::at_block_barrier;
  ++at_barrier_;
  suspend();
  return votes_;
}

void Block::release_block_barrier() {
  const Thread* first = nullptr;
  const Thread* gone = nullptr;
  votes_ = {};
  for (const Thread& thread : threads_) {
    if (thread.state == State::exited) {
      if (gone == nullptr) gone = &thread;
      continue;
    }
    if (first == nullptr) first = &thread;
    if (!first->place.same_as(thread.place))
      fail_block(fmt::format("divergent barriers: {}, {}", first->describe(), thread.describe()));
    ++votes_.all;
    if (thread.predicate) ++votes_.yes;
  }
  if (gone != nullptr && !options_.allow_early_exit)
    fail_block(fmt::format("barrier not reached by all: {}, {}", first->describe(), gone->describe()));
  at_barrier_ = 0;
  if (checking_) checker_.block_barrier();
  for (Thread& thread : threads_) {
    if (thread.state != State::at_block_barrier) continue;
    thread.state = State::ready;
    warps_[thread.warp].ready |= 1u << thread.lane;
  }
}

void Block::wait_for_warp(const Place& place, unsigned mask, void* deposit, Completion complete) {
  Thread& me = *running_;
  Warp& warp = warps_[me.warp];
  me.place = place;
  me.mask = mask;
  me.deposit = deposit;
  if ((mask >> me.lane & 1u) == 0)
    fail(me, fmt::format("{}: mask {:#010x} leaves out the caller, lane {}", place.describe(), mask, me.lane));
  const unsigned gone = mask & warp.exited;
  if (gone != 0 && !options_.allow_early_exit)
    fail(me, fmt::format("{}: mask {:#010x} names thread {}, which has exited", place.describe(), mask,
                         threads_[me.warp * warp_size + std::countr_zero(gone)].name()));
  const unsigned wanted = mask & warp.existing & ~warp.exited;
  warp.arrived |= 1u << me.lane;
  me.state = State::at_warp_operation;
  if ((warp.arrived & wanted) != wanted) {
    suspend();
    return;
  }
  check_uniform(place, mask, wanted);
  void* deposits[warp_size] = {};
  for (unsigned lanes = wanted; lanes != 0; lanes &= lanes - 1) {
    Thread& thread = threads_[me.warp * warp_size + std::countr_zero(lanes)];
    deposits[thread.lane] = thread.deposit;
    thread.state = State::ready;
  }
  complete(*this, deposits, wanted);
  warp.arrived &= ~wanted;
  warp.ready |= wanted & ~(1u << me.lane);  // the last to arrive goes on at once
}

void Block::check_uniform(const Place& place, unsigned mask, unsigned wanted) const {
  for (unsigned lanes = wanted; lanes != 0; lanes &= lanes - 1) {
    const Thread& other = threads_[running_->warp * warp_size + std::countr_zero(lanes)];
    if (other.mask != mask || !other.place.same_as(place))
      fail_block(fmt::format("divergent warp operations: {}, {}", running_->describe(), other.describe()));
  }
}

void Block::yield() {
  warps_[running_->warp].yielded |= 1u << running_->lane;
  suspend();
}

void Block::perhaps_yield() {
  if (options_.order == Order::shuffled && random_() % 4 == 0) yield();
}

void Block::note_warp_barrier(unsigned lanes) {
  if (checking_) checker_.warp_barrier(running_->warp, lanes);
}

void Block::note_fence() {
  if (checking_) checker_.fence();
}

void Block::observe(const void* address, std::size_t bytes, checking::Kind kind, std::uintptr_t return_address) {
  if (!checking_ || error_ || abandoned_) return;
  std::string wrong;
  if (slab_.contains(address)) {
    const std::size_t owner = slab_.owner(address);
    if (owner == running_->linear) return;
    wrong = fmt::format("touches a local variable of thread {} at {}",
                        owner < threads_.size() ? threads_[owner].name() : "(none)", source_line(return_address));
  } else {
    wrong = checker_.access(*running_, address, bytes, kind, return_address);
  }
  if (wrong.empty()) return;
  try {
    fail(*running_, wrong);
  } catch (...) {
    error_ = std::current_exception();
  }
  running_->stuck = true;
  fibers_[running_->linear]->suspend();
}

std::string Block::block_name() const {
  return fmt::format("kernel {}, block {}", function_name(grid_.kernel), coordinates(index_));
}

std::string Block::describe_running() const { return fmt::format("{}, thread {}", block_name(), running_->name()); }

void Block::fail(const Thread& culprit, const std::string& text) const {
  throw KernelError(fmt::format("{}, thread {}: {}", block_name(), culprit.name(), text));
}

void Block::fail_lane(unsigned lane, const std::string& text) const {
  fail(threads_[running_->warp * warp_size + lane], text);
}

void Block::fail_block(const std::string& text) const { throw KernelError(fmt::format("{}: {}", block_name(), text)); }

void Block::fail_deadlock() const {
  struct Group {
    const Thread* first;
    unsigned count;
  };
  std::vector<Group> groups;
  for (const Thread& thread : threads_) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.first->state == thread.state &&
             (thread.state == State::exited || thread.state == State::ready ||
              (group.first->place.same_as(thread.place) && group.first->mask == thread.mask));
    });
    if (same == groups.end()) {
      groups.push_back({&thread, 1});
    } else {
      ++same->count;
    }
  }
  std::string text = "deadlock";
  char separator = ':';
  for (const Group& group : groups) {
    text += fmt::format("{} {}", separator, group.first->describe());
    if (group.count > 1) text += fmt::format(" (and {} like it)", group.count - 1);
    separator = ';';
  }
  fail_block(text);
}

}  // namespace simt::machine

#if defined(__SANITIZE_ADDRESS__)
/// AddressSanitizer knows the line of an error; which thread of which kernel it was is added before its report.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the sanitizer's name
extern "C" void __asan_on_error() {
  if (const simt::machine::Block* block = simt::machine::Block::current())
    std::fprintf(stderr, "%s\n", block->describe_running().c_str());
}
#endif
