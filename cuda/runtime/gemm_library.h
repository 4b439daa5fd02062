#pragma once

#include <memory>

#include "cuda/kernels/linear/linear.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// cuBLASLt for dense products of many tokens, loaded at the first head. It owns its handle and workspace, and
/// remembers the algorithm found for each shape. In the emulated half it never takes a product.
class GemmLibrary {
 public:
  GemmLibrary();
  ~GemmLibrary();
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;

  /// y = x Wᵀ for one segment of a linear layer. False where it is none of the library's: quantised or stacked weights,
  /// few tokens, no library on this machine. Throws mtpcheck::Error with the shape for a status that is not success.
  bool multiply(Stream stream, const Linear& linear, const LinearSegment& segment);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
