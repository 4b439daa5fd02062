#include "reference/parallel/thread_pool.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace mtpcheck {
namespace {

thread_local bool inside_item = false;

// Waking the workers and waiting for them takes some ten microseconds.
constexpr std::size_t kWorthWaking = std::size_t{1} << 18;

std::size_t default_threads() {
  if (const char* text = std::getenv("MTPCHECK_THREADS"); text != nullptr) {
    const long value = std::strtol(text, nullptr, 10);
    if (value > 0) return static_cast<std::size_t>(value);
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

ThreadPool::ThreadPool(std::size_t threads) {
  const std::size_t wanted = threads == 0 ? default_threads() : threads;
  workers_.reserve(wanted - 1);
  for (std::size_t i = 1; i < wanted; ++i) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::for_each(std::size_t count, std::size_t operations, const std::function<void(std::size_t)>& item) {
  if (count == 0) return;
  const bool worth_waking = operations >= kWorthWaking / count;
  if (inside_item || workers_.empty() || count == 1 || !worth_waking) {
    for (std::size_t i = 0; i < count; ++i) item(i);
    return;
  }
  const std::lock_guard one_caller(callers_);
  {
    const std::lock_guard lock(mutex_);
    item_ = &item;
    count_ = count;
    next_ = 0;
    error_ = nullptr;
    busy_ = workers_.size();
    ++generation_;
  }
  start_.notify_all();
  take_items();
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return busy_ == 0; });
  item_ = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::for_ranges(std::size_t count, std::size_t grain, std::size_t operations,
                            const std::function<void(std::size_t, std::size_t)>& body) {
  const std::size_t size = std::max<std::size_t>(grain, 1);
  for_each((count + size - 1) / size, size * operations,
           [&](std::size_t i) { body(i * size, std::min(count, (i + 1) * size)); });
}

void ThreadPool::take_items() {
  inside_item = true;
  for (;;) {
    std::size_t mine = 0;
    {
      const std::lock_guard lock(mutex_);
      if (next_ >= count_) break;
      mine = next_++;
    }
    try {
      (*item_)(mine);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_ || mine < error_item_) {
        error_ = std::current_exception();
        error_item_ = mine;
      }
    }
  }
  inside_item = false;
}

void ThreadPool::work() {
  std::size_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
    }
    take_items();
    {
      const std::lock_guard lock(mutex_);
      --busy_;
    }
    finished_.notify_one();
  }
}

ThreadPool& shared_pool() {
  static ThreadPool pool;
  return pool;
}

}  // namespace mtpcheck
