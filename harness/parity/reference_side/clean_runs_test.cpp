// A correct head never fails: torch's (or the reference's, where this build has no LibTorch) on random inputs, in every
// way in which the checkpoints are stored. MTPCHECK_CLEAN_RUNS is how many inputs each, 100 unless told otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "harness/heads/make_head.h"
#include "harness/heads/opened_checkpoint.h"
#include "harness/inputs/input_file.h"
#include "harness/inputs/random_input.h"
#include "harness/parity/comparison/comparison.h"
#include "harness/parity/reference_side/reference_side.h"
#include "harness/parity/trace/chain.h"
#include "reference/random/philox.h"

namespace mtpcheck {
namespace {

struct CleanRun {
  std::string checkpoint;  ///< of golden/tiny-hy4
  std::string dtype;
  Dtype precision;
};

std::uint64_t runs_wanted() {
  const char* const told = std::getenv("MTPCHECK_CLEAN_RUNS");
  return told != nullptr ? std::strtoull(told, nullptr, 10) : 100;
}

std::string eager_head() {
  const auto heads = available_heads();
  return std::ranges::find(heads, "torch") != heads.end() ? "torch" : "reference";
}

/// One to three packed sequences; every fifth input may have as many rows that the last ones are sparse (index_topk
/// 64).
HeadInput random_batch(const HeadConfig& config, std::uint64_t seed) {
  const RandomStream random(seed, 0);
  const std::uint64_t longest = seed % 5 == 4 ? 80 : 16;
  std::vector<HeadInput> sequences;
  for (std::uint64_t i = 0; i <= random.below(0, 3); ++i) {
    sequences.push_back(random_head_input(config, 1 + random.below(1 + i, i == 0 ? longest : 8), 3 * seed + i));
  }
  return packed(sequences);
}

class CleanRuns : public ::testing::TestWithParam<CleanRun> {};

TEST_P(CleanRuns, NeverFail) {
  const auto opened = open_for_heads(MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-" + GetParam().checkpoint);
  const Conventions conventions = resolve_conventions(opened.mtpcheck_json, {}, {}).values;
  const ReferenceSide side{opened.config, opened.weights, conventions, "transformers"};
  const auto head =
      make_head({.head = eager_head(), .dtype = GetParam().dtype, .rounding_preset = "transformers", .threads = 1},
                opened.config, opened.weights, conventions);
  std::map<std::string, double> most;  // of its allowance, by stage
  for (std::uint64_t seed = 0; seed < runs_wanted(); ++seed) {
    const HeadInput input = random_batch(opened.config, seed);
    const std::size_t steps = seed % 4 == 3 ? 2 : 1;
    const Chain chain = run_chain(*head, input, steps);
    ComparisonOptions options;
    options.tolerance.precision = GetParam().precision;
    options.steps = steps;
    options.sequence_starts = input.cu_seqlens;
    const auto record = compare(chain.trace, make_reference_runs(side, chain.inputs), options);
    EXPECT_TRUE(record.pass) << head->name() << ", seed " << seed;
    for (const auto& stage : record.stages) {
      EXPECT_TRUE(stage.pass) << "seed " << seed << ", " << stage.name << ": " << stage.reason;
      most[stage.stage] = std::max(
          {most[stage.stage], stage.cumulative.allowance_used, stage.replay ? stage.replay->allowance_used : 0.0});
    }
  }
  for (const auto& [stage, share] : most) RecordProperty(stage, std::to_string(share));
}

INSTANTIATE_TEST_SUITE_P(TinyHy4, CleanRuns,
                         ::testing::Values(CleanRun{"bf16", "f32", Dtype::f32}, CleanRun{"bf16", "bf16", Dtype::bf16},
                                           CleanRun{"fp8-block", "f32", Dtype::f32},
                                           CleanRun{"fp8-block", "bf16", Dtype::bf16},
                                           CleanRun{"mxfp8", "f32", Dtype::f32},
                                           CleanRun{"mxfp8", "bf16", Dtype::bf16}),
                         [](const auto& param) {
                           std::string name = param.param.checkpoint + "_in_" + param.param.dtype;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace mtpcheck
