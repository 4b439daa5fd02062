// Verification of drafts: rejection sampling with one block a sequence, and its greedy form with one thread.
//   in   p [B, K+1, V], q [B, K, V] f32, drafts [B, K]      out  tokens [B, K+1], accepted [B]
//   bytes 8·V·2 at most (the row of the rejection, read twice); at B = 16, V = 120,832 that is 31 MB: 6.4 µs at 4.8
//   TB/s.
// Sums run in float64: 120,832 float32 terms would put the sampled token off by their rounding.
#include "cuda/kernels/numeric/reduce.h"
#include "cuda/kernels/numeric/rows.h"
#include "cuda/kernels/sampling/argmax.h"
#include "cuda/kernels/sampling/verification.h"
#include "cuda/simt/collectives.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

/// What is sampled from: p, or after a rejection max(p − q, 0) with q a row or one at `draft`.
struct Residual {
  const float* p = nullptr;
  const float* q = nullptr;
  int draft = -1;

  __device__ double at(int i) const {
    const double q_i = q != nullptr ? static_cast<double>(q[i]) : i == draft ? 1.0 : 0.0;
    const double difference = static_cast<double>(p[i]) - q_i;
    return difference > 0.0 ? difference : 0.0;
  }
};

/// The first index at which the running sum exceeds u · total. All threads of the block must call it.
template <int kThreads>
__device__ int sample(const Residual& weights, int width, double u, double* scratch, int* found) {
  using Scan = simt::BlockScan<double, kThreads>;
  SIMT_SHARED(typename Scan::Storage, scan_storage);
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int i = thread; i < width; i += kThreads) sum += weights.at(i);
  const double total = block_sum(sum, scratch);
  if (thread == 0) *found = width;
  __syncthreads();
  double before = 0;
  int last_positive = 0;  // where rounding lets the sum end below u · total
  for (int start = 0; start < width; start += kThreads) {
    const double weight = start + thread < width ? weights.at(start + thread) : 0.0;
    double tile_total = 0;
    const double running = before + Scan::inclusive_sum(scan_storage, weight, &tile_total);
    if (weight > 0.0) {
      last_positive = start + thread;
      if (running > u * total) atomicMin(found, start + thread);
    }
    before += tile_total;
    __syncthreads();
    if (*found < width) return *found;
  }
  __syncthreads();
  if (thread == 0) *found = -1;
  __syncthreads();
  atomicMax(found, last_positive);
  __syncthreads();
  return *found;
}

template <int kThreads>
__global__ void __launch_bounds__(kThreads) rejection_sampling_kernel(RejectionSampling p) {
  SIMT_SHARED(double, scratch, 32);
  SIMT_SHARED(int, found);
  const std::int64_t sequence = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int32_t* const drafts = p.drafts + sequence * p.steps;
  const float* const uniforms = p.uniforms + sequence * (2 * p.steps + 1);
  std::int32_t* const tokens = p.tokens + sequence * (p.steps + 1);

  int accepted = 0;
  while (accepted < p.steps) {
    const int token = drafts[accepted];
    const float target = p.target[(sequence * (p.steps + 1) + accepted) * p.vocabulary + token];
    const float draft = p.draft == nullptr ? 1.0f : p.draft[(sequence * p.steps + accepted) * p.vocabulary + token];
    if (!(uniforms[2 * accepted] * draft < target)) break;
    ++accepted;
  }
  const bool bonus = accepted == p.steps;
  Residual weights{.p = p.target + (sequence * (p.steps + 1) + accepted) * p.vocabulary};
  if (!bonus && p.draft != nullptr) weights.q = p.draft + (sequence * p.steps + accepted) * p.vocabulary;
  if (!bonus && p.draft == nullptr) weights.draft = drafts[accepted];
  const auto u = static_cast<double>(uniforms[bonus ? 2 * p.steps : 2 * accepted + 1]);
  const int token = sample<kThreads>(weights, p.vocabulary, u, scratch, &found);
  for (int i = thread; i <= p.steps; i += kThreads) {
    tokens[i] = i < accepted ? drafts[i] : i == accepted ? token : -1;
  }
  if (thread == 0) p.accepted[sequence] = accepted;
}

__global__ void greedy_verification_kernel(GreedyVerification p) {
  const int sequence = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (sequence >= p.sequences) return;
  const std::int32_t* const drafts = p.drafts + sequence * p.steps;
  const unsigned long long* const target = p.target_keys + sequence * (p.steps + 1);
  std::int32_t* const tokens = p.tokens + sequence * (p.steps + 1);
  int accepted = 0;
  while (accepted < p.steps && drafts[accepted] == argmax_of(target[accepted])) ++accepted;
  for (int i = 0; i <= p.steps; ++i) tokens[i] = i <= accepted ? argmax_of(target[i]) : -1;
  p.accepted[sequence] = accepted;
}

}  // namespace

void rejection_sampling(Stream stream, const RejectionSampling& p) {
  if (p.sequences == 0) return;
  if (p.vocabulary <= 64) {
    simt::launch_on(stream, rejection_sampling_kernel<64>, dim3(p.sequences), dim3(64), 0, p);
  } else {
    simt::launch_on(stream, rejection_sampling_kernel<512>, dim3(p.sequences), dim3(512), 0, p);
  }
}

void greedy_verification(Stream stream, const GreedyVerification& p) {
  if (p.sequences == 0) return;
  simt::launch_on(stream, greedy_verification_kernel, dim3(ceil_div(p.sequences, 64)), dim3(64), 0, p);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
