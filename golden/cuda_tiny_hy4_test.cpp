#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "golden/cases/bf16_policy.h"
#include "golden/cases/forward_case.h"
#include "harness/heads/make_head.h"
#include "harness/heads/opened_checkpoint.h"
#include "harness/inputs/input_file.h"
#include "reference/head/reference_head.h"

namespace mtpcheck {
namespace {

constexpr std::size_t kRows = 96;  // index_topk is 64: the last third is sparse

HeadInput first_rows(HeadInput input, std::size_t rows) {
  input.input_ids.resize(rows);
  input.positions.resize(rows);
  const std::size_t row_bytes = input.hidden_states.bytes.size() / input.hidden_states.shape[0];
  input.hidden_states.bytes.resize(rows * row_bytes);
  input.hidden_states.shape[0] = rows;
  input.cu_seqlens = {0, static_cast<std::int64_t>(rows)};
  return input;
}

class TinyHy4 : public ::testing::TestWithParam<std::string> {};

TEST_P(TinyHy4, EveryStageOfTheEmulatedKernelsIsWithinThePolicy) {
  const std::filesystem::path folder = std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "tiny-hy4";
  const auto opened = open_for_heads(folder / GetParam());
  const auto conventions = resolve_conventions(opened.mtpcheck_json, std::nullopt, {}).values;
  const auto input =
      first_rows(read_head_input(folder / "traces" / "passage-00.safetensors", opened.config, ""), kRows);

  golden::KeepingSink ours;
  make_head({.head = "cuda-emulated", .dtype = "bf16"}, opened.config, opened.weights, conventions)
      ->forward(input, {}, ours);
  const Selections forced = golden::selections_of(ours.stages, 1);
  const auto reference = [&](Precision precision) {
    golden::KeepingSink sink;
    make_reference_head(opened.config, opened.weights, conventions, {.precision = precision})
        ->forward(input, {.forced = &forced}, sink);
    return sink.stages;
  };
  const auto truth = reference(Precision::f64);
  EXPECT_EQ(ours.stages.size(), truth.size());
  EXPECT_THAT(golden::beyond_policy(ours.stages, truth, reference(Precision::bf16)), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, TinyHy4,
                         ::testing::Values("checkpoint-bf16", "checkpoint-fp8-block", "checkpoint-mxfp8"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace mtpcheck
