#pragma once

#include "cuda/simt/qualifiers.h"
#include "cuda/simt/warp.h"

/// Tensor cores: D[16, 8] = A[16, k] · B[k, 8] + D over the 32 lanes of a warp, with the fragment layout of PTX's
/// mma.sync.m16n8k16 (bf16) and mma.sync.m16n8k32 (fp8 e4m3). Sums are float32.
///
/// Lane l holds, with g = l / 4 and t = l % 4:
///   A, bf16   register r: row g + 8·(r & 1), columns 2t + 8·(r / 2) and the next
///   B, bf16   register r: column g, rows 2t + 8·r and the next
///   A, e4m3   register r: row g + 8·(r & 1), columns 4t + 16·(r / 2) and the next three
///   B, e4m3   register r: column g, rows 4t + 16·r and the next three
///   D         value i: row g + 8·(i / 2), column 2t + (i & 1)
/// The lower half (byte) of a register is the element of the lower index.
///
/// load_matrices is ldmatrix.x4: four 8×8 matrices of 16-bit elements from shared memory. Lane 8·m + i passes the
/// address of row i of matrix m (16 bytes, aligned); register m of lane l gets elements 2t and 2t + 1 of row g of
/// matrix m, or with load_matrices_transposed of column g.
///
/// On the CPU products are exact and summed in float32 in ascending k; a device sums in another order and may keep
/// fewer bits in between.
///
/// Source: PTX ISA 9.0, "Matrix fragments for mma.m16n8k16" and "… m16n8k32", "ldmatrix".
namespace simt {

/// Registers of one lane.
struct FragmentA {
  unsigned x[4];
};
struct FragmentB {
  unsigned x[2];
};
struct FragmentD {
  float x[4];
};

}  // namespace simt

#if SIMT_ON_CPU

namespace simt {

void mma_bf16(FragmentD& d, const FragmentA& a, const FragmentB& b, const Location& where = Location::current());
void mma_e4m3(FragmentD& d, const FragmentA& a, const FragmentB& b, const Location& where = Location::current());
void load_matrices(FragmentA& result, const void* row, const Location& where = Location::current());
void load_matrices_transposed(FragmentA& result, const void* row, const Location& where = Location::current());

}  // namespace simt

#else

namespace simt {

__device__ __forceinline__ void mma_bf16(FragmentD& d, const FragmentA& a, const FragmentB& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d.x[0]), "+f"(d.x[1]), "+f"(d.x[2]), "+f"(d.x[3])
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]));
}

/// sm_89 and later.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
__device__ __forceinline__ void mma_e4m3(FragmentD& d, const FragmentA& a, const FragmentB& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d.x[0]), "+f"(d.x[1]), "+f"(d.x[2]), "+f"(d.x[3])
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]));
}
#endif

__device__ __forceinline__ void load_matrices(FragmentA& result, const void* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(result.x[0]), "=r"(result.x[1]), "=r"(result.x[2]), "=r"(result.x[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(FragmentA& result, const void* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(result.x[0]), "=r"(result.x[1]), "=r"(result.x[2]), "=r"(result.x[3])
               : "r"(address)
               : "memory");
}

}  // namespace simt

#endif
