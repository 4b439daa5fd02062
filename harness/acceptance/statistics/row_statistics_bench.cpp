// Σ min(p, q), both first choices, margins and normalisers of 4,096 positions of a real vocabulary, in blocks of rows,
// on one thread; beside LibTorch's softmax of both and their minimum, and beside the speed at which the rows can be
// read.
//   build/bin/row_statistics_bench
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <vector>

#include "harness/acceptance/statistics/row_statistics.h"
#include "reference/random/philox.h"

#ifdef MTPCHECK_BENCH_TORCH
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#endif

namespace mtpcheck {
namespace {

constexpr std::size_t kWords = 120832;
constexpr std::size_t kPositions = 4096;
constexpr std::size_t kBlockOfRows = 64;

double read_bytes_per_second = 0;  // measured first, and what the others are held to

// Rows of logits, made block by block: windows into a stretch of random numbers, no two the same.
class Rows {
 public:
  Rows() : stretch_(std::size_t{1} << 22), target_(kBlockOfRows * kWords), draft_(kBlockOfRows * kWords) {
    const RandomStream stream(1, 0);
    for (std::size_t i = 0; i < stretch_.size(); ++i) stretch_[i] = static_cast<float>(4 * stream.normal(i));
  }

  void fill(std::size_t block) {
    const RandomStream offsets(2, block);
    for (std::size_t row = 0; row < kBlockOfRows; ++row) {
      copy(target_, row, offsets.bits(2 * row));
      copy(draft_, row, offsets.bits(2 * row + 1));
    }
  }

  const float* target(std::size_t row) const { return target_.data() + row * kWords; }
  const float* draft(std::size_t row) const { return draft_.data() + row * kWords; }

 private:
  void copy(std::vector<float>& to, std::size_t row, std::uint64_t random) {
    const std::size_t offset = random % (stretch_.size() - kWords);
    std::memcpy(to.data() + row * kWords, stretch_.data() + offset, kWords * sizeof(float));
  }

  std::vector<float> stretch_;
  std::vector<float> target_;
  std::vector<float> draft_;
};

// Calls use(rows) on every block of the 4,096 positions; only that is timed.
template <class Use>
void over_all_positions(benchmark::State& state, Use use) {
  Rows rows;
  double best = 1e30;
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);  // one thread each; other programs' share is left out
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  for (auto _ : state) {
    double seconds = 0;
    for (std::size_t block = 0; block < kPositions / kBlockOfRows; ++block) {
      rows.fill(block);
      const double start = now();
      use(rows);
      seconds += now() - start;
    }
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  const auto bytes = static_cast<double>(2 * kPositions * kWords * sizeof(float));
  state.counters["GB/s"] = bytes / best * 1e-9;
  state.counters["us/position"] = best / kPositions * 1e6;
  if (read_bytes_per_second > 0) state.counters["of_reading"] = bytes / best / read_bytes_per_second;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1024;
  state.counters["rows_MB"] = bytes * 1e-6;
}

// Every byte of the rows once, in the order in which the statistics read them.
void reading(benchmark::State& state) {
  over_all_positions(state, [&](const Rows& rows) {
    std::uint64_t sum = 0;
    const auto add = [&](const float* row) {
      const auto* const words = reinterpret_cast<const unsigned char*>(row);
      std::uint64_t lanes[32] = {};
      for (std::size_t i = 0; i < kWords * sizeof(float); i += sizeof(lanes)) {
        std::uint64_t part[32];
        std::memcpy(part, words + i, sizeof(part));
        for (int lane = 0; lane < 32; ++lane) lanes[lane] += part[lane];
      }
      for (const auto lane : lanes) sum += lane;
    };
    for (std::size_t row = 0; row < kBlockOfRows; ++row) {
      add(rows.target(row));
      add(rows.draft(row));
    }
    benchmark::DoNotOptimize(sum);
  });
  read_bytes_per_second = state.counters["GB/s"] * 1e9;
}
BENCHMARK(reading)->UseManualTime()->Iterations(2)->Unit(benchmark::kMillisecond);

void statistics(benchmark::State& state) {
  over_all_positions(state, [](const Rows& rows) {
    for (std::size_t row = 0; row < kBlockOfRows; ++row) {
      benchmark::DoNotOptimize(
          row_statistics({rows.target(row), kWords}, {rows.draft(row), kWords}).expected_acceptance);
    }
  });
}
BENCHMARK(statistics)->UseManualTime()->Iterations(2)->Unit(benchmark::kMillisecond);

#ifdef MTPCHECK_BENCH_TORCH
void torch_softmax_and_min(benchmark::State& state) {
  at::set_num_threads(1);
  over_all_positions(state, [](const Rows& rows) {
    for (std::size_t row = 0; row < kBlockOfRows; ++row) {
      const auto as_tensor = [](const float* values) {
        return at::from_blob(const_cast<float*>(values), {static_cast<std::int64_t>(kWords)}, at::kFloat);
      };
      const at::Tensor p = at::softmax(as_tensor(rows.target(row)), -1);
      const at::Tensor q = at::softmax(as_tensor(rows.draft(row)), -1);
      benchmark::DoNotOptimize(at::minimum(p, q).sum().item<float>());
    }
  });
}
BENCHMARK(torch_softmax_and_min)->UseManualTime()->Iterations(2)->Unit(benchmark::kMillisecond);
#endif

}  // namespace
}  // namespace mtpcheck
