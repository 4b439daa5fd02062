// LayerNorm, RoPE, FP8 quantisation and cache write of the indexer's keys: one warp a token.
//   in   projected [T, d] bf16      out  cache rows [T, d] bf16 or E4M3 with one float scale
//   bytes 4·T·d + T·(2 or 1)·d; at T = 16, d = 128 that is 12 kB. Launch-bound at any T of a decode step.
#include "cuda/kernels/indexer/index_key.h"
#include "cuda/kernels/indexer/index_layout.h"
#include "cuda/kernels/norm/rope.h"
#include "cuda/kernels/numeric/fp8.h"
#include "cuda/kernels/numeric/reduce.h"
#include "cuda/kernels/numeric/rows.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

__global__ void index_key_kernel(IndexKey p) {
  SIMT_DYNAMIC_SHARED(float, row);  // [d]
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const int d = p.dims;
  const int lane = lane_id();
  const bf16* const x = p.projected + token * row_stride(d);

  float sum = 0;
  for (int i = lane; i < d; i += 32) sum += row[i] = from_bf16(x[i]);
  const float mean = warp_sum(sum) / static_cast<float>(d);
  float squares = 0;
  for (int i = lane; i < d; i += 32) squares += (row[i] - mean) * (row[i] - mean);
  const float scale = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(d) + p.eps);
  for (int i = lane; i < d; i += 32) row[i] = (row[i] - mean) * scale * p.norm_weight[i] + p.norm_bias[i];
  if (!SIMT_MUTANT(index_key_without_syncwarp)) __syncwarp();

  float* const pe = row + d - p.rope.dims;
  for (int i = lane; i < p.rope.dims / 2; i += 32) {
    const int first = rope_first(i, p.rope.half_split);
    const int second = rope_second(i, p.rope.dims, p.rope.half_split);
    const float2 turned =
        rotated(pe[first], pe[second], rope_factors(p.positions[token], p.rope.half_turns[i], p.rope.scale));
    pe[first] = turned.x;
    pe[second] = turned.y;
  }
  __syncwarp();

  // The key exists as bf16 before it is quantised, as in the engines.
  float amax = 0;
  for (int i = lane; i < d; i += 32) {
    row[i] = round_bf16(row[i]);
    amax = fmaxf(amax, fabsf(row[i]));
    p.keys[token * row_stride(d) + i] = to_bf16(row[i]);
  }
  const std::int64_t at = p.cache_rows[token];
  const int stride = index_stride(d);
  if (p.cache_fp8 == nullptr) {
    for (int i = lane; i < stride; i += 32) p.cache[at * stride + i] = to_bf16(i < d ? row[i] : 0.0f);
    return;
  }
  const float key_scale = power_of_two_scale(warp_max(amax));
  for (int i = lane; i < stride; i += 32) {
    p.cache_fp8[at * stride + i] = i < d ? to_e4m3(row[i] / key_scale) : std::uint8_t{0};
  }
  if (lane == 0) p.cache_scales[at] = key_scale;
}

}  // namespace

void index_key(Stream stream, const IndexKey& p) {
  if (p.tokens == 0) return;
  simt::launch_on(stream, index_key_kernel, dim3(p.tokens), dim3(32), static_cast<std::size_t>(p.dims) * sizeof(float),
                  p);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
