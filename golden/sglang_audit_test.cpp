// The audit over every recorded case of SGLang's loader: where it leaves elements unwritten or takes something for
// other numbers, an error names them, above all where the engine is silent; where it loads the files rightly, there is
// none.
#include <gtest/gtest.h>

#include <algorithm>

#include "golden/cases/audited_case.h"
#include "golden/cases/loader_outcome.h"
#include "golden/cases/planned_case.h"
#include "golden/cases/recorded_loads.h"

namespace mtpcheck::golden {
namespace {

Audit audit_of(const std::string& name, const LoaderOutcome& recorded) {
  return audit_case(PlannedCase::changed(cases().read(name), recorded.config_changes), "sglang@0.5.23");
}

bool is_error(const Finding& finding) { return finding.severity == Severity::error; }

// A parameter is named by itself, or with its whole layer.
bool names(const Finding& finding, const std::string& parameter) {
  return is_error(finding) && (finding.subject == parameter || finding.id == "layer-not-filled" ||
                               finding.id == "nothing-matched" || finding.id == "no-mtp-weights");
}

class SglangAudit : public testing::TestWithParam<std::string> {};

TEST_P(SglangAudit, NamesWhatIsNotWritten) {
  const LoaderOutcome recorded = sglang_outcomes().read(GetParam());
  if (recorded.refused || recorded.exception) return;
  const Audit audited = audit_of(GetParam(), recorded);
  for (const Parameter& parameter : audited.plan->parameters) {
    const bool later = parameter.origin != Origin::checkpoint || parameter.role == Role::kv_scale;
    if (later || recorded.parameters.at(parameter.name).unwritten == 0) continue;
    EXPECT_TRUE(std::ranges::any_of(audited.findings, [&](const Finding& f) { return names(f, parameter.name); }))
        << parameter.name << " is not among" << text_of(audited);
  }
}

TEST_P(SglangAudit, NamesTheDefectAndNothingElse) {
  static const auto kExpected = read_case_lines(MTPCHECK_GOLDEN_DIR "/loader-sglang/findings");
  const Audit audited = audit_of(GetParam(), sglang_outcomes().read(GetParam()));
  if (!kExpected.contains(GetParam())) {
    EXPECT_TRUE(std::ranges::none_of(audited.findings, is_error)) << text_of(audited);
    return;
  }
  for (const auto& [severity, rest] : kExpected.at(GetParam())) {
    const auto words = words_of(rest);  // id, cause, subject
    const auto subject = long_name(rest.substr(words[0].size() + words[1].size() + 2));
    EXPECT_TRUE(std::ranges::any_of(audited.findings,
                                    [&, &severity = severity](const Finding& f) {
                                      return to_string(f.severity) == severity && f.id == words[0] &&
                                             to_string(f.cause) == words[1] && f.subject == subject;
                                    }))
        << severity << " " << rest << " is not among" << text_of(audited);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SglangAudit, testing::ValuesIn(sglang_outcomes().names()),
                         [](const auto& param_info) { return param_info.param; });

TEST(SglangAudit, SaysSomethingWhereverTheEngineRaisesOrRefuses) {
  for (const auto& name : sglang_outcomes().names()) {
    const LoaderOutcome recorded = sglang_outcomes().read(name);
    if (!recorded.refused && !recorded.exception) continue;
    const Audit audited = audit_of(name, recorded);
    const char* const id = recorded.refused ? "config-refused" : "load-stops";
    EXPECT_NE(find(audited, id), nullptr) << name << text_of(audited);
  }
}

}  // namespace
}  // namespace mtpcheck::golden
