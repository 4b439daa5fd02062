// What executing kernels on the CPU costs: a switch from thread to thread, a warp operation, and a whole kernel.
//   simt_bench            as they are for every user        simt_bench_checked    with every memory access checked
#include <benchmark/benchmark.h>

#include <vector>

#include "cuda/simt/examples/row_kernels.h"
#include "cuda/simt/simt.h"

namespace simt {
namespace {

constexpr int rounds = 1000;

__global__ void barriers_kernel() {
  for (int i = 0; i < rounds; ++i) __syncthreads();
}

__global__ void shuffles_kernel(float* out) {
  float value = 0;
  for (int i = 0; i < rounds; ++i) value += __shfl_xor_sync(0xFFFFFFFFu, value, 1);
  out[threadIdx.x] = value;
}

void barrier(benchmark::State& state) {
  const auto threads = static_cast<unsigned>(state.range(0));
  std::uint64_t switches = 0;
  for (auto _ : state) {
    launch(barriers_kernel, dim3(1), dim3(threads), 0);
    switches += last_launch().switches;
  }
  state.counters["per_switch"] =
      benchmark::Counter(static_cast<double>(switches), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(barrier)->Arg(32)->Arg(256)->Arg(1024);

void shuffle(benchmark::State& state) {
  std::vector<float> out(32);
  for (auto _ : state) launch(shuffles_kernel, dim3(1), dim3(32), 0, out.data());
  state.counters["per_lane"] =
      benchmark::Counter(32.0 * rounds, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(shuffle);

void block_rms_norm(benchmark::State& state) {
  const int rows = 100;
  const int width = 6144;
  std::vector<float> x(static_cast<std::size_t>(rows) * width, 1.0f);
  std::vector<float> w(width, 1.0f);
  std::vector<__nv_bfloat16> y(x.size());
  Options options;
  options.workers = static_cast<unsigned>(state.range(0));
  const ScopedOptions scope(options);
  for (auto _ : state) examples::rms_norm(nullptr, 256, x.data(), w.data(), y.data(), rows, width, 1e-5f);
  state.SetItemsProcessed(state.iterations() * rows * width);
}
BENCHMARK(block_rms_norm)->Arg(1)->Arg(2)->ArgName("workers")->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace simt
