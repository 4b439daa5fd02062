// Speed of the comparison against what the memory can deliver. Bytes are those of both sides, each read once.
//   read        both buffers summed as 64-bit integers: what the machine's memory gives one thread
//   errors/…    max, mean, RMS, relative L2, cosine and the masks in one pass
//   dearer/…    percentiles, ulps, histogram; KL and top-k agreement of logits
// bench_against_numpy.py runs this and the same metrics in numpy, and prints both.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>

#include "harness/parity/metrics/distribution.h"
#include "harness/parity/metrics/error_sums.h"
#include "harness/parity/metrics/kernel/error_kernel.h"
#include "harness/parity/metrics/logit_agreement.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

constexpr std::size_t kRows = 4096;
constexpr std::size_t kColumns = 6144;

Tensor noise(Dtype dtype, Shape shape, unsigned seed) {
  Tensor tensor = make_tensor(dtype, std::move(shape));
  std::minstd_rand random(seed);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < tensor.elements(); ++i) {
    const float value = normal(random);
    const std::uint16_t half = f32_to_bf16(value);
    if (dtype == Dtype::bf16) {
      std::memcpy(tensor.bytes.data() + 2 * i, &half, 2);
    } else {
      std::memcpy(tensor.bytes.data() + 4 * i, &value, 4);
    }
  }
  return tensor;
}

struct Sides {
  Tensor candidate, reference;
};

const Sides& sides(Dtype dtype) {
  static const Sides f32{noise(Dtype::f32, {kRows, kColumns}, 1), noise(Dtype::f32, {kRows, kColumns}, 2)};
  static const Sides bf16{noise(Dtype::bf16, {kRows, kColumns}, 1), noise(Dtype::bf16, {kRows, kColumns}, 2)};
  return dtype == Dtype::bf16 ? bf16 : f32;
}

void count_bytes(benchmark::State& state, const Tensor& candidate, const Tensor& reference) {
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(candidate.bytes.size() + reference.bytes.size()));
}

std::uint64_t sum_of(const Tensor& tensor) {
  std::uint64_t sums[8] = {};
  for (std::size_t at = 0; at + sizeof(sums) <= tensor.bytes.size(); at += sizeof(sums)) {
    std::uint64_t words[8];
    std::memcpy(words, tensor.bytes.data() + at, sizeof(words));
    for (std::size_t i = 0; i < 8; ++i) sums[i] += words[i];
  }
  return sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4] ^ sums[5] ^ sums[6] ^ sums[7];
}

void read(benchmark::State& state) {
  const Sides& both = sides(Dtype::f32);
  for (auto _ : state) {
    benchmark::DoNotOptimize(sum_of(both.candidate) + sum_of(both.reference));
  }
  count_bytes(state, both.candidate, both.reference);
}
BENCHMARK(read);

void errors(benchmark::State& state, Dtype dtype) {
  const Sides& both = sides(dtype);
  for (auto _ : state) {
    benchmark::DoNotOptimize(compare_rows(both.candidate.view(), both.reference.view(), kRows));
  }
  count_bytes(state, both.candidate, both.reference);
}
BENCHMARK_CAPTURE(errors, f32, Dtype::f32);
BENCHMARK_CAPTURE(errors, bf16, Dtype::bf16);

/// What other processors would run.
void errors_at_level(benchmark::State& state, KernelType type, Dtype dtype, KernelLevel level) {
  if (!supported(level)) return state.SkipWithError("this processor does not have it");
  const Sides& both = sides(dtype);
  const ErrorKernel kernel = error_kernel(type, type, level);
  const std::size_t size = dtype == Dtype::bf16 ? 2 : 4;
  for (auto _ : state) {
    ErrorSums sums;
    for (std::size_t at = 0; at < kRows * kColumns; at += kKernelBlock) {
      append(sums,
             kernel(both.candidate.bytes.data() + at * size, both.reference.bytes.data() + at * size, kKernelBlock,
                    sums.max_abs),
             at);
    }
    benchmark::DoNotOptimize(sums);
  }
  count_bytes(state, both.candidate, both.reference);
}
BENCHMARK_CAPTURE(errors_at_level, f32_avx512, KernelType::f32, Dtype::f32, KernelLevel::avx512);
BENCHMARK_CAPTURE(errors_at_level, bf16_avx512, KernelType::bf16, Dtype::bf16, KernelLevel::avx512);
BENCHMARK_CAPTURE(errors_at_level, f32_avx2, KernelType::f32, Dtype::f32, KernelLevel::avx2);
BENCHMARK_CAPTURE(errors_at_level, bf16_avx2, KernelType::bf16, Dtype::bf16, KernelLevel::avx2);
BENCHMARK_CAPTURE(errors_at_level, f32_portable, KernelType::f32, Dtype::f32, KernelLevel::portable);
BENCHMARK_CAPTURE(errors_at_level, bf16_portable, KernelType::bf16, Dtype::bf16, KernelLevel::portable);

void dearer_distribution(benchmark::State& state) {
  static const Sides both{noise(Dtype::f32, {512, kColumns}, 1), noise(Dtype::f32, {512, kColumns}, 2)};
  for (auto _ : state) {
    benchmark::DoNotOptimize(distribution(both.candidate.view(), both.reference.view()));
  }
  count_bytes(state, both.candidate, both.reference);
}
BENCHMARK(dearer_distribution);

void dearer_logits(benchmark::State& state) {
  static const Sides both{noise(Dtype::f32, {16, 120832}, 1), noise(Dtype::f32, {16, 120832}, 2)};
  for (auto _ : state) {
    benchmark::DoNotOptimize(logit_agreement(both.candidate.view(), both.reference.view()));
  }
  count_bytes(state, both.candidate, both.reference);
}
BENCHMARK(dearer_logits);

}  // namespace
}  // namespace mtpcheck
