#include "reports/schema/sample_report.h"

namespace mtpcheck::reports {

Report sample_report() {
  ErrorRecord small;
  small.max_abs = 1e-7;
  small.mean_abs = 2e-8;
  small.rms = 3e-8;
  small.relative_l2 = 4e-8;
  small.cosine_distance = 1e-15;
  small.rounding_rms = 4e-8;
  small.allowance = 1e-7;
  small.allowance_used = 0.31;
  small.worst_row = 1;
  small.elements = 6;
  small.pass = true;
  ErrorRecord large = small;
  large.max_abs = 0.5;
  large.rms = 0.25;
  large.allowance_used = 2.5e6;
  large.pass = false;
  large.reason = "error above its allowance";

  StageRecord enorm;
  enorm.name = enorm.stage = "enorm";
  enorm.dimensions = {"T", "H"};
  enorm.extents = {2, 3};
  enorm.candidate_dtype = "f32";
  enorm.pass = true;
  enorm.cumulative = small;
  enorm.distribution = DistributionRecord{};
  enorm.distribution->histogram.assign(kHistogramBins, 1);
  enorm.worst = {{{1, 2}, 1.0, 1.0000001}};
  enorm.profile = {{1e-8, 2e-8}, {1e-7, 1e-7}, {1e-8, 1e-8, 3e-8}};

  StageRecord rope = enorm;
  rope.name = rope.stage = "q_rope";
  rope.dimensions = {"T", "N", "r"};
  rope.extents = {2, 1, 2};
  rope.pass = false;
  rope.reason = large.reason;
  rope.likely_cause = "the candidate matches interleaved RoPE";
  rope.cumulative = large;
  rope.replay = large;
  rope.worst = {{{1, 0, 1}, 0.5, 1.0}};
  rope.candidate_tensor = KeptTensor{KeptTensor::Type::f32, std::vector<std::byte>(16)};
  rope.reference_tensor = KeptTensor{KeptTensor::Type::f64, std::vector<std::byte>(32)};

  StageRecord experts;
  experts.name = experts.stage = "topk_experts";
  experts.dimensions = {"T", "K"};
  experts.extents = {2, 1};
  experts.pass = true;
  experts.forced = true;
  experts.cumulative.pass = true;
  experts.selection = SelectionRecord{2, 1, 1, 0, 0.5, 0, 1e-9, 1e-7, 1};

  Report report;
  report.verb = "compare";
  report.run = {"0.1.0",
                "mtpcheck compare DIR",
                "mtpcheck compare DIR --tokens 4",
                std::string(1000, 'x'),
                "host",
                "cpu",
                "Linux",
                2};
  report.checkpoint = {"DIR", "sha256:00", 1, 1000};
  report.sides = {{"reference", "reference f64", "f64", {{"rope", "half-split", "mtpcheck.json", ""}}},
                  {"candidate", "torch f32", "f32", {{"rope", "interleaved", "option", "--candidate-rope"}}}};
  report.comparison = ComparisonRecord{};
  report.comparison->first_divergent_stage = "q_rope";
  report.comparison->first_failing_stage_in_replay = "q_rope";
  report.comparison->tokens = 2;
  report.comparison->sequence_starts = {0, 2};
  report.comparison->tolerance.precision = "f32";
  report.comparison->stages = {enorm, rope, experts};
  report.comparison->unmatched = {{"my_q", "candidate", "q"}};
  report.comparison->notes = {"selections of 1 row were forced"};
  report.findings = {{"partial", "error", "w13_weight", "expert 2 is missing"}};
  report.tables = {{"curve",
                    "a depth",
                    {{"depth", "", std::vector<std::int64_t>{1, 2}},
                     {"rate", "1", std::vector<double>{0.9, 0.8}},
                     {"label", "", std::vector<std::string>{"one", ""}}}}};
  return report;
}

}  // namespace mtpcheck::reports
