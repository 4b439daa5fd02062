#pragma once

#include <stdexcept>

namespace simt {

/// A kernel did what a GPU punishes. The message names kernel, block, thread, file and line:
///   kernel softmax(float*), block (2,0,0): barrier not reached by all: thread (7,0,0) has exited, thread (0,0,0) waits
///   in __syncthreads at cuda/kernels/softmax.cu:31:3
class KernelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace simt
