// Between two draft steps: one thread a sequence. A few dozen bytes; it exists so that a decode step needs no host.
#include "cuda/kernels/numeric/rows.h"
#include "cuda/kernels/sampling/advance.h"
#include "cuda/kernels/sampling/argmax.h"
#include "cuda/simt/simt.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

constexpr int kThreads = 64;

__global__ void advance_draft_kernel(AdvanceDraft p) {
  const int sequence = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (sequence >= p.sequences) return;
  const std::int32_t token = argmax_of(p.keys[sequence]);
  p.keys[sequence] = 0;
  p.drafts[sequence * p.steps + p.step] = token;
  p.ids[sequence] = token;
  p.positions[sequence] += 1;
  p.cache_rows[sequence] += 1;
  p.key_counts[sequence] += 1;
}

}  // namespace

void advance_draft(Stream stream, const AdvanceDraft& p) {
  if (p.sequences == 0) return;
  simt::launch_on(stream, advance_draft_kernel, dim3(ceil_div(p.sequences, kThreads)), dim3(kThreads), 0, p);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
