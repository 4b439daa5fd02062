// Every recorded case of SGLang's loader against the plan and the plan carried out: golden/loader-sglang, case by case.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "golden/cases/loader_outcome.h"
#include "golden/cases/planned_case.h"
#include "golden/cases/recorded_loads.h"
#include "harness/loading/carry_out/carry_out.h"
#include "harness/loading/plan/coverage.h"

namespace mtpcheck::golden::sglang {
namespace {

class SglangLoader : public testing::TestWithParam<std::string> {};

// The recorder sees whether a weight loader returned, not whether it wrote: SGLang's experts' loader returns without a
// word for an expert of another rank, and so does the plan, as `not_local`.
Outcome as_recorded(Outcome outcome) { return outcome == Outcome::not_local ? Outcome::loaded : outcome; }

std::string shard_as_recorded(const LoadPlan& plan, const Load& load) {
  if (!plan.parameters[load.parameter].name.ends_with("wk_weights_proj.weight")) {
    return std::string(to_string(load.shard));
  }
  return load.shard == Shard::first ? "wk" : "weights_proj";
}

std::vector<RecordedLoad> loads_of(const LoadPlan& plan, const PlannedTensor& tensor) {
  std::vector<RecordedLoad> loads;
  for (std::uint32_t i = 0; i < tensor.load_count; ++i) {
    const Load& load = plan.loads[tensor.first_load + i];
    const bool raised = tensor.outcome == Outcome::error && i + 1 == tensor.load_count;
    loads.push_back({plan.parameters[load.parameter].name, shard_as_recorded(plan, load), load.expert, !raised});
  }
  return loads;
}

// A tensor without loads of its own is read by the loads of the one that completed the pair.
void expect_completed(const PlannedCase& planned, std::uint32_t waiting, const std::string& by) {
  const auto partner = std::ranges::find(planned.headers.tensors, by, &TensorView::name);
  ASSERT_NE(partner, planned.headers.tensors.end()) << by;
  const auto at = static_cast<std::size_t>(partner - planned.headers.tensors.begin());
  const PlannedTensor& loads = planned.plan.tensors[at];
  if (loads.outcome == Outcome::error) return;
  EXPECT_TRUE(std::ranges::any_of(planned.plan.writes, [&](const Write& write) {
    const bool reads = write.tensor == waiting || write.conversion.scale_tensor == waiting;
    return reads && write.load >= loads.first_load && write.load < loads.first_load + loads.load_count;
  })) << by;
}

void expect_tensors(const PlannedCase& planned, const LoaderOutcome& recorded) {
  std::map<std::string, std::size_t> copies;
  for (const std::uint32_t index : planned.plan.read_order) {
    const auto& name = planned.headers.tensors[index].name;
    const PlannedTensor& tensor = planned.plan.tensors[index];
    if (tensor.outcome == Outcome::not_reached) break;
    const RecordedTensor& expected = recorded.tensor(name, copies[name]++);
    EXPECT_EQ(to_string(as_recorded(tensor.outcome)), expected.outcome) << name;
    const auto loads = loads_of(planned.plan, tensor);
    EXPECT_TRUE(loads == expected.loads) << name << "\n  " << in_words(loads) << "\n  " << in_words(expected.loads);
    if (!expected.completed_by.empty()) expect_completed(planned, index, expected.completed_by);
  }
}

void expect_messages(const PlannedCase& planned, const LoaderOutcome& recorded) {
  std::vector<std::string> warnings;
  for (const auto& warning : planned.plan.warnings) warnings.push_back(warning.text);
  EXPECT_EQ(warnings, recorded.warnings);
  const auto& exception = planned.plan.exception;
  ASSERT_EQ(exception.has_value(), recorded.exception.has_value()) << (exception ? exception->message : "none");
  if (!exception) return;
  EXPECT_EQ(exception->type, recorded.exception->type) << exception->message;
  const bool in_pool = exception->where == EngineException::Where::weight_loader;
  EXPECT_EQ(in_pool ? "weight_loader" : "load_weights", recorded.exception->where);
  EXPECT_EQ(planned.plan.tensors[exception->tensor].outcome, Outcome::error);
}

// The parameter's digest; where two threads write the same elements, the digests of every order in which they may have
// come. A pair is the two writes of one slot: the input scales of gate and up.
std::set<std::string> digests_of_any_order(const PlannedCase& planned, std::uint32_t index, const Coverage& coverage) {
  const bool races = planned.plan.parameters[index].name.ends_with("w13_input_scale");
  const std::size_t pairs = races ? coverage.overwritten.size() : 0;
  std::set<std::string> digests;
  for (std::size_t turned = 0; turned < std::size_t{1} << pairs; ++turned) {
    LoadPlan plan = planned.plan;
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      if ((turned >> pair & 1) == 0) continue;
      const Overwritten& both = coverage.overwritten[pair];
      std::swap(plan.writes[both.earlier], plan.writes[both.later]);
    }
    digests.insert(sha256(carry_out(plan, index, planned.headers.tensors).tensor.bytes));
  }
  return digests;
}

void expect_parameters(const PlannedCase& planned, const LoaderOutcome& recorded) {
  EXPECT_EQ(planned.plan.parameters.size(), recorded.parameters.size());
  const auto coverage = coverage_of(planned.plan);
  for (std::uint32_t index = 0; index < planned.plan.parameters.size(); ++index) {
    const Parameter& parameter = planned.plan.parameters[index];
    const auto found = recorded.parameters.find(parameter.name);
    ASSERT_NE(found, recorded.parameters.end()) << parameter.name;
    const RecordedParameter& expected = found->second;
    expect_layout(parameter, coverage[index], expected);
    if (expected.nondeterministic) continue;
    EXPECT_EQ(expected.sha256.empty(), expected.unwritten > 0) << parameter.name;
    if (expected.sha256.empty()) continue;
    const auto digests = digests_of_any_order(planned, index, coverage[index]);
    EXPECT_TRUE(digests.contains(expected.sha256)) << parameter.name << ", " << digests.size() << " orders";
  }
}

TEST_P(SglangLoader, DoesWhatTheEngineDid) {
  const LoaderOutcome recorded = sglang_outcomes().read(GetParam());
  const PlannedCase planned(cases().read(GetParam()), "sglang@0.5.23", recorded.config_changes);
  SCOPED_TRACE(planned.made.about);
  ASSERT_EQ(planned.plan.refusal.has_value(), recorded.refused.has_value())
      << (planned.plan.refusal ? planned.plan.refusal->message : "not refused");
  if (recorded.refused) {
    EXPECT_EQ(planned.plan.refusal->type, recorded.refused->type);
    EXPECT_FALSE(planned.plan.refusal->config_key.empty());
    return;
  }
  expect_tensors(planned, recorded);
  expect_messages(planned, recorded);
  expect_parameters(planned, recorded);
}

INSTANTIATE_TEST_SUITE_P(Cases, SglangLoader, testing::ValuesIn(sglang_outcomes().names()),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace mtpcheck::golden::sglang
