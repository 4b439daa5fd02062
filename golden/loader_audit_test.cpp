// The audit over every recorded case: the defect is named where the files are defective, above all where the engine is
// silent, and nothing graver than a remark is said of clean ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "golden/cases/audited_case.h"
#include "golden/cases/loader_outcome.h"
#include "golden/cases/recorded_loads.h"

namespace mtpcheck::golden {
namespace {

class VllmAudit : public testing::TestWithParam<std::string> {};

TEST_P(VllmAudit, NamesTheDefectAndNothingElse) {
  static const auto kExpected = read_case_lines(MTPCHECK_GOLDEN_DIR "/loader/findings");
  const auto recorded = vllm_outcomes().read(GetParam());
  const Audit audited = audit_case(cases().read(GetParam()));
  const auto& findings = audited.findings;
  for (const auto& finding : findings) {
    EXPECT_TRUE(std::ranges::any_of(finding_ids(), [&](const FindingId& id) { return id.id == finding.id; }))
        << finding.id;
    EXPECT_FALSE(finding.subject.empty() || finding.found.empty() || finding.expected.empty()) << describe(finding);
  }
  if (!recorded.defective) {
    EXPECT_TRUE(std::ranges::all_of(findings, [](const Finding& f) { return f.severity == Severity::info; }))
        << text_of(audited);
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
        << severity << " " << rest << " is not among" << text_of(audited);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, VllmAudit, testing::ValuesIn(cases().names()),
                         [](const auto& param_info) { return param_info.param; });

TEST(VllmAudit, TheEngineIsSilentOnSixtyOneDefectsAndTheAuditOnNone) {
  std::size_t silent = 0;
  for (const auto& name : cases().names()) {
    const auto recorded = vllm_outcomes().read(name);
    if (!recorded.defective || !recorded.engine_silent) continue;
    ++silent;
    EXPECT_FALSE(audit_case(cases().read(name)).passes(Severity::warning)) << name;
  }
  EXPECT_EQ(silent, 61U);
}

}  // namespace
}  // namespace mtpcheck::golden
