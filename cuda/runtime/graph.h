#pragma once

#include <functional>
#include <memory>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// Work on a stream, recorded once and launched as a whole: a CUDA graph. In the emulated half it is simply done again
/// at each launch.
class Graph {
 public:
  /// Calls `enqueue`, which must only enqueue on the stream: no allocation, no synchronisation.
  Graph(Stream stream, std::function<void()> enqueue);
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  void launch(Stream stream) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
