#pragma once

#include "cuda/simt/mma.h"
#include "cuda/simt/simt.h"

/// Tensor-core steps of 32 along k with 16-byte loads.
///
/// mma.m16n8k16 wants of lane (g, t) the columns 2t, 2t+1, 2t+8 and 2t+9 of a row: four-byte pieces. The order of k is
/// free as long as A and B agree, so lane t takes columns 8t … 8t+7 of each 32 instead, and those eight feed two steps:
///
///   step 0   columns 2t, 2t+1 ← 8t, 8t+1      2t+8, 2t+9 ← 8t+2, 8t+3
///   step 1                    ← 8t+4, 8t+5               ← 8t+6, 8t+7
namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// Row (of A and D) or column (of B) within 8, and quarter of the 32.
__device__ inline int fragment_group() { return (static_cast<int>(threadIdx.x) & 31) >> 2; }
__device__ inline int fragment_quad() { return static_cast<int>(threadIdx.x) & 3; }

/// d += A · B over 32 of k. low, high: entries 8t … 8t+7 of A's rows g and g+8; b: of B's column g.
__device__ inline void mma_step32(simt::FragmentD& d, const uint4& low, const uint4& high, const uint4& b) {
  simt::mma_bf16(d, simt::FragmentA{{low.x, high.x, low.y, high.y}}, simt::FragmentB{{b.x, b.y}});
  simt::mma_bf16(d, simt::FragmentA{{low.z, high.z, low.w, high.w}}, simt::FragmentB{{b.z, b.w}});
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
