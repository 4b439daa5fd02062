#pragma once

#include <cuda_bf16.h>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// gated = attention · sigmoid(gate), one gate a channel or one a head.
struct OutputGate {
  int tokens = 0;
  int heads = 0;       ///< N
  int value_dims = 0;  ///< v
  bool headwise = false;
  const __nv_bfloat16* attention = nullptr;  ///< [T, N·v]
  const __nv_bfloat16* gate = nullptr;       ///< [T, N·v], or [T, N] headwise
  __nv_bfloat16* gated = nullptr;            ///< [T, N·v]
};

void output_gate(Stream stream, const OutputGate& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
