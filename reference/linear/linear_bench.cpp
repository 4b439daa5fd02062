// x Wᵀ at the shapes of Hy4-preview's projections, by storage of the weights; bytes are those of the weights.
//   build/bin/linear_bench --benchmark_filter=bf16
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "reference/linear/linear.h"

namespace mtpcheck {
namespace {

struct Weights {
  Weights(std::size_t rows, std::size_t cols, Dtype dtype) : bytes(rows * cols * bits_of(dtype) / 8) {
    // Exponents near 0, as weights have them: products that are subnormal would be measured instead.
    std::mt19937 random(1);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const bool has_exponent = (i + 1) % (bits_of(dtype) / 8) == 0;
      bytes[i] = static_cast<std::byte>(has_exponent ? 0x38 | (random() & 0x87) : random() & 0xFF);
    }
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.dtype = dtype;
    matrix.data = bytes.data();
    if (dtype != Dtype::f8_e4m3) return;
    scales.assign((rows + 127) / 128 * ((cols + 127) / 128), 0.01F);
    matrix.scales = {Dtype::f32, reinterpret_cast<const std::byte*>(scales.data()), 128, 128, (cols + 127) / 128, 0};
  }
  std::vector<std::byte> bytes;
  std::vector<float> scales;
  Matrix matrix;
};

template <Dtype dtype>
void project(benchmark::State& state) {
  const auto tokens = static_cast<Eigen::Index>(state.range(0));
  const auto rows = static_cast<std::size_t>(state.range(1));
  const auto cols = static_cast<std::size_t>(state.range(2));
  const Weights weights(rows, cols, dtype);
  const Rows<float> x = Rows<float>::Constant(tokens, static_cast<Eigen::Index>(cols), 0.5F);
  for (auto _ : state) benchmark::DoNotOptimize(linear(x, weights.matrix, shared_pool()).data());
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * weights.bytes.size()));
  state.counters["flops"] = benchmark::Counter(2.0 * static_cast<double>(tokens) * static_cast<double>(rows * cols),
                                               benchmark::Counter::kIsIterationInvariantRate);
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  for (const int tokens : {1, 16, 64, 256}) benchmark->Args({tokens, 4096, 6144});
  benchmark->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK_TEMPLATE(project, Dtype::bf16)->Apply(shapes);
BENCHMARK_TEMPLATE(project, Dtype::f8_e4m3)->Apply(shapes);
BENCHMARK_TEMPLATE(project, Dtype::f32)->Apply(shapes);

}  // namespace
}  // namespace mtpcheck
