// tiny-hy4's recorded acceptance, row by row: transformers ran the head and the target, and verified the drafts.
//
// Reads golden/tiny-hy4, or the folder that the environment variable MTPCHECK_TINY_HY4 names (a larger copy). No row is
// excused for a choice of keys or experts that rounding could turn: none turns. A greedy flag is, in a row whose two
// largest logits tie.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/acceptance/study/study.h"
#include "harness/acceptance/trace/trace_file.h"
#include "harness/heads/make_head.h"
#include "harness/heads/opened_checkpoint.h"
#include "harness/inputs/tensor_file.h"

namespace mtpcheck {
namespace {

constexpr double kProbability = 1e-4;  // float32 arithmetic in another order
constexpr float kTie = 1e-4F;          // two logits this close may change places between two float32 heads

std::filesystem::path tiny_hy4() {
  const char* const larger = std::getenv("MTPCHECK_TINY_HY4");
  return larger != nullptr ? larger : MTPCHECK_GOLDEN_DIR "/tiny-hy4";
}

std::vector<std::filesystem::path> passages(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(tiny_hy4() / folder)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

AcceptanceStudy study_passages(const std::vector<std::filesystem::path>& files, std::size_t depth) {
  const auto opened = open_for_heads(tiny_hy4() / "checkpoint-bf16");
  const auto conventions = resolve_conventions(opened.mtpcheck_json, std::nullopt, {}).values;
  const auto head = make_head({.head = "reference", .dtype = "f32"}, opened.config, opened.weights, conventions);
  std::vector<TargetTrace> traces;
  for (const auto& file : files) {
    traces.push_back(read_target_trace(file));
    check_trace(traces.back(), opened.config.hidden_size, opened.config.vocab_size);
  }
  return study(*head, traces, {.depth = depth});
}

TEST(TinyHy4Acceptance, DepthOneOfNaturalTextIsReproducedRowByRow) {
  const auto files = passages("traces");
  const auto result = study_passages(files, 1);
  std::size_t at = 0;
  for (const auto& file : files) {
    const auto recorded = open_tensor_file(file);
    const auto expected = to_f64(*recorded.find("expected_accept_t1"));
    const auto teacher = to_i64(*recorded.find("accept_teacher"));
    const auto drafts = to_i64(*recorded.find("draft_tokens"));
    for (std::size_t i = 0; i < expected.size(); ++i, ++at) {
      const auto& outcome = result.rows.at(at).depths.front();
      EXPECT_NEAR(outcome.expected, expected[i], kProbability) << file.filename() << " row " << i;
      if (outcome.draft_margin < kTie || outcome.target_margin < kTie) {
        std::printf("tie: %s row %zu: margins %g %g\n", file.filename().c_str(), i, outcome.draft_margin,
                    outcome.target_margin);
        continue;
      }
      EXPECT_EQ(outcome.greedy_hit, teacher[i * 3] == 1) << file.filename() << " row " << i;
      EXPECT_EQ(outcome.draft, drafts[i * 3]) << file.filename() << " row " << i;
    }
  }
  EXPECT_EQ(at, result.rows.size());
}

TEST(TinyHy4Acceptance, AcceptedLengthsOfGreedyTextAreReproducedRowByRow) {
  const auto files = passages("generated/greedy");
  const auto result = study_passages(files, 3);
  std::size_t at = 0;
  for (const auto& file : files) {
    const auto accepted = to_i64(*open_tensor_file(file).find("accepted_len"));
    for (std::size_t i = 31; i < accepted.size(); ++i, ++at) {
      const auto& row = result.rows.at(at);
      ASSERT_EQ(row.row, i);
      EXPECT_EQ(row.accepted_greedily(), static_cast<std::size_t>(accepted[i])) << file.filename() << " row " << i;
    }
  }
  EXPECT_EQ(at, result.rows.size());
}

TEST(TinyHy4Acceptance, ReachOfSampledTextIsReproducedRowByRow) {
  const auto files = passages("generated/sampled");
  const auto result = study_passages(files, 3);
  std::size_t at = 0;
  for (const auto& file : files) {
    const auto reach = to_f64(*open_tensor_file(file).find("expected_reach"));
    for (std::size_t i = 31; i < reach.size() / 3; ++i, ++at) {
      const auto& row = result.rows.at(at);
      ASSERT_EQ(row.row, i);
      for (std::size_t k = 0; k < 3; ++k) {
        EXPECT_NEAR(row.depths[k].reach, reach[3 * i + k], kProbability)
            << file.filename() << " row " << i << " depth " << k + 1;
      }
    }
  }
  EXPECT_EQ(at, result.rows.size());
}

}  // namespace
}  // namespace mtpcheck
