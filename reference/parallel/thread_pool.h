#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mtpcheck {

/// The one thread pool. Work is cut into items that write disjoint outputs, so results do not depend on the number of
/// threads or on who takes which item.
class ThreadPool {
 public:
  /// `threads` workers in all, the caller included; 0 means one a hardware thread.
  explicit ThreadPool(std::size_t threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t threads() const { return workers_.size() + 1; }

  /// Calls `item(i)` once for each i < count, on the workers and the caller, and returns when all are done. An
  /// exception of the lowest item that threw is rethrown. Called from within an item, it runs in that thread; so does
  /// work of which there is too little to wake anybody for.
  ///
  /// operations  of one item, roughly (multiplications, say)
  void for_each(std::size_t count, std::size_t operations, const std::function<void(std::size_t)>& item);

  /// `body(begin, end)` over consecutive ranges of `grain` items (the last may be shorter).
  void for_ranges(std::size_t count, std::size_t grain, std::size_t operations,
                  const std::function<void(std::size_t begin, std::size_t end)>& body);

 private:
  void work();
  void take_items();

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_, finished_;
  bool stopping_ = false;
  std::size_t generation_ = 0;  // counts the calls of for_each
  std::size_t busy_ = 0;        // workers still in the current call
  const std::function<void(std::size_t)>* item_ = nullptr;
  std::size_t count_ = 0;
  std::size_t next_ = 0;
  std::exception_ptr error_;
  std::size_t error_item_ = 0;
  std::mutex callers_;  // one for_each at a time
};

/// The pool that everything uses unless told otherwise: one worker a hardware thread, or as many as the environment
/// variable MTPCHECK_THREADS says. Started on first use.
ThreadPool& shared_pool();

}  // namespace mtpcheck
