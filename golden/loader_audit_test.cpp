// The audit over every recorded case: the defect is named where the files are defective, above all where the engine is
// silent, and nothing graver than a remark is said of clean ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "golden/cases/loader_case.h"
#include "golden/cases/loader_outcome.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/loading/audit/audit.h"

namespace mtpcheck::golden {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "loader";

const LoaderCases& cases() {
  static const LoaderCases kCases(kFolder);
  return kCases;
}

const LoaderOutcomes& outcomes() {
  static const LoaderOutcomes kOutcomes = LoaderOutcomes::of_vllm(kFolder);
  return kOutcomes;
}

Audit audit_of(const std::string& name) {
  const LoaderCase made = cases().read(name);
  const ScratchDirectory scratch;
  write_checkpoint(made, scratch.path());
  const Checkpoint checkpoint = open_checkpoint(scratch.path());
  HeadConfig config = parse_head_config(checkpoint.config, "config.json");
  for (const auto& [key, value] : made.set_in_engine) {
    EXPECT_EQ(key, "num_nextn_predict_layers");
    config.num_nextn_predict_layers = value.get<std::size_t>();
  }
  return audit(checkpoint, config,
               {.loader = find_loader("vllm@0.33.0"),
                .topology = {made.tp_size, made.tp_rank, made.expert_parallel, {}},
                .kv_cache_dtype = made.kv_cache_dtype,
                .config_unchecked = !made.set_in_engine.empty()});
}

std::string all_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const auto& finding : findings) text += "\n  " + describe(finding);
  return text;
}

class VllmAudit : public testing::TestWithParam<std::string> {};

TEST_P(VllmAudit, NamesTheDefectAndNothingElse) {
  static const auto kExpected = read_case_lines(kFolder / "findings");
  const auto recorded = outcomes().read(GetParam());
  const auto findings = audit_of(GetParam()).findings;
  for (const auto& finding : findings) {
    EXPECT_TRUE(std::ranges::any_of(finding_ids(), [&](const FindingId& id) { return id.id == finding.id; }))
        << finding.id;
    EXPECT_FALSE(finding.subject.empty() || finding.found.empty() || finding.expected.empty()) << describe(finding);
  }
  if (!recorded.defective) {
    EXPECT_TRUE(std::ranges::all_of(findings, [](const Finding& f) { return f.severity == Severity::info; }))
        << all_of(findings);
    EXPECT_FALSE(kExpected.contains(GetParam()));
    return;
  }
  ASSERT_TRUE(kExpected.contains(GetParam()));
  for (const auto& [severity, rest] : kExpected.at(GetParam())) {
    const auto words = words_of(rest);  // id, cause, subject
    const auto subject = long_name(rest.substr(words[0].size() + words[1].size() + 2));
    EXPECT_TRUE(std::ranges::any_of(findings,
                                    [&, &severity = severity](const Finding& f) {
                                      return to_string(f.severity) == severity && f.id == words[0] &&
                                             to_string(f.cause) == words[1] && f.subject == subject;
                                    }))
        << severity << " " << rest << " is not among" << all_of(findings);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, VllmAudit, testing::ValuesIn(cases().names()),
                         [](const auto& param_info) { return param_info.param; });

TEST(VllmAudit, TheEngineIsSilentOnSixtyOneDefectsAndTheAuditOnNone) {
  std::size_t silent = 0;
  for (const auto& name : cases().names()) {
    const auto recorded = outcomes().read(name);
    if (!recorded.defective || !recorded.engine_silent) continue;
    ++silent;
    EXPECT_FALSE(audit_of(name).passes(Severity::warning)) << name;
  }
  EXPECT_EQ(silent, 61U);
}

}  // namespace
}  // namespace mtpcheck::golden
