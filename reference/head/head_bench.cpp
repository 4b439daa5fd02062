// A small head (golden/forward/medium: hidden 512, 16 experts): a prefill of its 48 rows, and the decode of one row.
//   build/bin/head_bench
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>

#include "golden/cases/forward_case.h"
#include "reference/head/reference_head.h"

namespace mtpcheck {
namespace {

class NoSink final : public StageSink {
 public:
  bool wants(Stage stage) const override { return stage == Stage::logits; }
  void record(const StageKey& /*key*/, const TensorView& value) override {
    benchmark::DoNotOptimize(value.bytes.data());
  }
};

const golden::ForwardCase& medium() {
  static const auto from =
      golden::read_forward_case(std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "forward", std::string("medium"));
  return from;
}

HeadInput first_row(const HeadInput& all) {
  HeadInput row;
  row.input_ids = {all.input_ids.front()};
  row.positions = {all.positions.front()};
  const std::size_t bytes = all.hidden_states.bytes.size() / all.tokens();
  row.hidden_states = {
      all.hidden_states.dtype,
      {1, all.hidden_states.shape[1]},
      {all.hidden_states.bytes.begin(), all.hidden_states.bytes.begin() + static_cast<std::ptrdiff_t>(bytes)}};
  row.cu_seqlens = {0, 1};
  return row;
}

template <Precision precision>
void prefill(benchmark::State& state) {
  const auto head = make_reference_head(medium().config, medium().weights, {}, {.precision = precision});
  const auto input = medium().input();
  NoSink sink;
  for (auto _ : state) {
    head->reset();
    head->forward(input, {}, sink);
  }
}

template <Precision precision>
void decode(benchmark::State& state) {
  const auto head = make_reference_head(medium().config, medium().weights, {}, {.precision = precision});
  const auto input = medium().input();
  const auto row = first_row(input);
  NoSink sink;
  head->forward(input, {}, sink);
  for (auto _ : state) {
    head->forward(row, {}, sink);
    head->rollback(0, input.tokens());
  }
}

BENCHMARK_TEMPLATE(prefill, Precision::f64)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_TEMPLATE(prefill, Precision::f32)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_TEMPLATE(prefill, Precision::bf16)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_TEMPLATE(prefill, Precision::f16)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_TEMPLATE(decode, Precision::f64)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_TEMPLATE(decode, Precision::f32)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_TEMPLATE(decode, Precision::bf16)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace mtpcheck
