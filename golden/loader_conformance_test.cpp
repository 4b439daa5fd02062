// Every recorded case of vLLM's loader against the plan and the plan carried out: golden/loader, case by case.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "golden/cases/loader_outcome.h"
#include "golden/cases/planned_case.h"
#include "golden/cases/recorded_loads.h"
#include "harness/loading/carry_out/carry_out.h"
#include "harness/loading/plan/coverage.h"

namespace mtpcheck::golden::vllm {
namespace {

class VllmLoader : public testing::TestWithParam<std::string> {};

std::vector<RecordedLoad> loads_of(const LoadPlan& plan, const PlannedTensor& tensor) {
  std::vector<RecordedLoad> loads;
  for (std::uint32_t i = 0; i < tensor.load_count; ++i) {
    const Load& load = plan.loads[tensor.first_load + i];
    loads.push_back(
        {plan.parameters[load.parameter].name, std::string(to_string(load.shard)), load.expert, load.written});
  }
  return loads;
}

void expect_tensors(const PlannedCase& planned, const LoaderOutcome& recorded) {
  std::map<std::string, std::size_t> copies;
  for (const std::uint32_t index : planned.plan.read_order) {
    const auto& name = planned.headers.tensors[index].name;
    const PlannedTensor& tensor = planned.plan.tensors[index];
    if (tensor.outcome == Outcome::not_reached) break;
    const RecordedTensor& expected = recorded.tensor(name, copies[name]++);
    EXPECT_EQ(to_string(tensor.outcome), expected.outcome) << name;
    const auto loads = loads_of(planned.plan, tensor);
    EXPECT_TRUE(loads == expected.loads) << name << "\n  " << in_words(loads) << "\n  " << in_words(expected.loads);
  }
}

void expect_messages(const PlannedCase& planned, const LoaderOutcome& recorded) {
  std::vector<std::string> unassigned;
  for (const auto index : planned.plan.unassigned) unassigned.push_back(planned.plan.parameters[index].name);
  EXPECT_EQ(unassigned, recorded.unassigned);

  std::vector<std::string> warnings;
  std::vector<std::string> construction;
  for (const auto& warning : planned.plan.warnings) {
    const bool built = warning.kind == EngineWarning::Kind::unknown_algorithm;
    (built ? construction : warnings).push_back(warning.text);
  }
  EXPECT_EQ(warnings, recorded.warnings);
  EXPECT_EQ(construction.empty(), recorded.construction_warnings.empty());

  const auto& exception = planned.plan.exception;
  ASSERT_EQ(exception.has_value(), recorded.exception.has_value()) << (exception ? exception->message : "none");
  if (!exception) return;
  EXPECT_EQ(exception->type, recorded.exception->type);
  const bool strict = exception->where == EngineException::Where::strict_check;
  EXPECT_EQ(strict ? "strict_check" : "load_weights", recorded.exception->where);
  if (strict) {
    EXPECT_EQ(exception->message, recorded.exception->message);
  }
}

void expect_loaded(const PlannedCase& planned, const LoaderOutcome& recorded) {
  const bool returned = !recorded.exception || recorded.exception->where == "strict_check";
  ASSERT_EQ(planned.plan.loaded.has_value(), returned);
  if (!returned) return;
  std::set<std::string> expected = recorded.loaded_too;
  for (const auto& [name, copies] : recorded.tensors) {
    const bool read = std::ranges::any_of(planned.plan.read_order, [&name = name, &planned](std::uint32_t index) {
      return planned.headers.tensors[index].name == name;
    });
    for (const auto& copy : copies) {
      for (const auto& load : copy.loads) {
        if (read && load.written) expected.insert(load.parameter);
      }
    }
  }
  EXPECT_EQ(std::set<std::string>(planned.plan.loaded->begin(), planned.plan.loaded->end()), expected);
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
    const bool random = parameter.initial == Initial::random;
    EXPECT_EQ(random ? "other" : to_string(parameter.initial), expected.initial) << parameter.name;
    if (expected.sha256.empty()) continue;
    const CarriedOut carried = carry_out(planned.plan, index, planned.headers.tensors);
    EXPECT_EQ(sha256(carried.tensor.bytes), expected.sha256) << parameter.name;
    EXPECT_EQ(carried.unwritten, expected.unwritten) << parameter.name;
  }
}

TEST_P(VllmLoader, DoesWhatTheEngineDid) {
  const PlannedCase planned(cases().read(GetParam()), "vllm@0.33.0");
  const LoaderOutcome recorded = vllm_outcomes().read(GetParam());
  SCOPED_TRACE(planned.made.about);
  ASSERT_EQ(planned.plan.refusal.has_value(), recorded.refused.has_value())
      << (planned.plan.refusal ? planned.plan.refusal->message : "not refused");
  if (recorded.refused) {
    EXPECT_FALSE(planned.plan.refusal->config_key.empty());
    return;
  }
  expect_tensors(planned, recorded);
  expect_messages(planned, recorded);
  expect_loaded(planned, recorded);
  expect_parameters(planned, recorded);
}

INSTANTIATE_TEST_SUITE_P(Cases, VllmLoader, testing::ValuesIn(cases().names()),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace mtpcheck::golden::vllm
