// Speed of the comparison against what the memory can deliver. Bytes are those of both sides, each read once; all lie
// on huge pages where the system has them, as numpy's arrays do. MTPCHECK_THREADS sets the number of threads.
//   read        memcmp of two equal buffers: two streams, each byte read and nothing else done
//   errors/…    max, mean, RMS, relative L2, cosine and the masks in one pass
//   dearer/…    percentiles, ulps, histogram; KL and top-k agreement of logits
// bench_against_numpy.py runs this and the same metrics in numpy, and prints both.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <span>

#include "harness/parity/metrics/distribution.h"
#include "harness/parity/metrics/error_sums.h"
#include "harness/parity/metrics/kernel/error_kernel.h"
#include "harness/parity/metrics/logit_agreement.h"
#include "reference/parallel/thread_pool.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

constexpr std::size_t kRows = 4096;
constexpr std::size_t kColumns = 6144;

struct Freed {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

class Buffer {
 public:
  Buffer(Dtype dtype, Shape shape, unsigned seed) {
    view_.dtype = dtype;
    view_.shape = std::move(shape);
    const std::size_t elements = view_.elements();
    const std::size_t width = dtype == Dtype::bf16 ? 2 : 4;
    constexpr std::size_t kHuge = std::size_t{1} << 21;
    const std::size_t room = (elements * width + kHuge - 1) / kHuge * kHuge;
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kHuge, room)));
    if (bytes_ == nullptr) throw std::bad_alloc();
    ::madvise(bytes_.get(), room, MADV_HUGEPAGE);
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < elements; ++i) {
      const float value = static_cast<float>(random()) * 0x1p-30F - 1;
      const std::uint16_t half = f32_to_bf16(value);
      std::memcpy(bytes_.get() + width * i, width == 2 ? static_cast<const void*>(&half) : &value, width);
    }
    view_.bytes = std::span<const std::byte>(bytes_.get(), elements * width);
  }

  const TensorView& view() const { return view_; }

 private:
  std::unique_ptr<std::byte, Freed> bytes_;
  TensorView view_;
};

struct Sides {
  Buffer candidate, reference;
};

const Sides& sides(Dtype dtype) {
  if (dtype == Dtype::bf16) {
    static const Sides bf16{{Dtype::bf16, {kRows, kColumns}, 1}, {Dtype::bf16, {kRows, kColumns}, 2}};
    return bf16;
  }
  static const Sides f32{{Dtype::f32, {kRows, kColumns}, 1}, {Dtype::f32, {kRows, kColumns}, 2}};
  return f32;
}

void count_bytes(benchmark::State& state, const TensorView& candidate, const TensorView& reference) {
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(candidate.bytes.size() + reference.bytes.size()));
}

void read(benchmark::State& state) {
  const Buffer& one = sides(Dtype::f32).candidate;
  static const Buffer same(Dtype::f32, {kRows, kColumns}, 1);
  const std::size_t parts = 16 * shared_pool().threads();
  const std::size_t size = one.view().bytes.size() / parts;
  for (auto _ : state) {
    shared_pool().for_each(parts, size, [&](std::size_t part) {
      benchmark::DoNotOptimize(
          std::memcmp(one.view().bytes.data() + part * size, same.view().bytes.data() + part * size, size));
    });
  }
  count_bytes(state, one.view(), same.view());
}
BENCHMARK(read)->UseRealTime();

void errors(benchmark::State& state, Dtype dtype) {
  const Sides& both = sides(dtype);
  for (auto _ : state) {
    benchmark::DoNotOptimize(compare_rows(both.candidate.view(), both.reference.view(), kRows));
  }
  count_bytes(state, both.candidate.view(), both.reference.view());
}
BENCHMARK_CAPTURE(errors, f32, Dtype::f32)->UseRealTime();
BENCHMARK_CAPTURE(errors, bf16, Dtype::bf16)->UseRealTime();

/// What other processors would run.
void errors_at_level(benchmark::State& state, KernelType type, Dtype dtype, InstructionSet level) {
  if (!supported(level)) return state.SkipWithError("this processor does not have it");
  const Sides& both = sides(dtype);
  const ErrorKernel kernel = error_kernel(type, type, level);
  const std::size_t size = dtype == Dtype::bf16 ? 2 : 4;
  for (auto _ : state) {
    ErrorSums sums;
    for (std::size_t at = 0; at < kRows * kColumns; at += kKernelBlock) {
      append(sums,
             kernel(both.candidate.view().bytes.data() + at * size, both.reference.view().bytes.data() + at * size,
                    kKernelBlock, sums.max_abs),
             at);
    }
    benchmark::DoNotOptimize(sums);
  }
  count_bytes(state, both.candidate.view(), both.reference.view());
}
BENCHMARK_CAPTURE(errors_at_level, f32_avx512, KernelType::f32, Dtype::f32, InstructionSet::avx512);
BENCHMARK_CAPTURE(errors_at_level, bf16_avx512, KernelType::bf16, Dtype::bf16, InstructionSet::avx512);
BENCHMARK_CAPTURE(errors_at_level, f32_avx2, KernelType::f32, Dtype::f32, InstructionSet::avx2);
BENCHMARK_CAPTURE(errors_at_level, bf16_avx2, KernelType::bf16, Dtype::bf16, InstructionSet::avx2);
BENCHMARK_CAPTURE(errors_at_level, f32_portable, KernelType::f32, Dtype::f32, InstructionSet::baseline);
BENCHMARK_CAPTURE(errors_at_level, bf16_portable, KernelType::bf16, Dtype::bf16, InstructionSet::baseline);

void dearer_distribution(benchmark::State& state) {
  static const Sides both{{Dtype::f32, {512, kColumns}, 1}, {Dtype::f32, {512, kColumns}, 2}};
  for (auto _ : state) {
    benchmark::DoNotOptimize(distribution(both.candidate.view(), both.reference.view()));
  }
  count_bytes(state, both.candidate.view(), both.reference.view());
}
BENCHMARK(dearer_distribution)->UseRealTime();

void dearer_logits(benchmark::State& state) {
  static const Sides both{{Dtype::f32, {16, 120832}, 1}, {Dtype::f32, {16, 120832}, 2}};
  for (auto _ : state) {
    benchmark::DoNotOptimize(logit_agreement(both.candidate.view(), both.reference.view()));
  }
  count_bytes(state, both.candidate.view(), both.reference.view());
}
BENCHMARK(dearer_logits)->UseRealTime();

}  // namespace
}  // namespace mtpcheck
