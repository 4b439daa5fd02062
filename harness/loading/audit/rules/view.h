#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "harness/checkpoint/header_set.h"
#include "harness/loading/audit/finding.h"
#include "harness/loading/meaning/meaning.h"
#include "harness/loading/plan/coverage.h"
#include "harness/loading/plan/plan.h"
#include "reference/model/config.h"

namespace mtpcheck {

/// What the rules of an audit look at: the files, what they mean, and what a loader makes of them. It refers to all of
/// these and copies nothing.
class AuditView {
 public:
  /// plan      nullptr: no loader was asked for
  /// coverage  of the plan
  /// ranks     over which the parameters are dealt out
  AuditView(const HeadConfig& head_config, const nlohmann::json& whole_config, const HeaderSet& header_set,
            const Meaning& what_is_meant, const LoadPlan* load_plan, const std::vector<Coverage>* plan_coverage,
            std::size_t rank_count);

  const HeadConfig& config;
  const nlohmann::json& config_json;
  const HeaderSet& headers;
  const Meaning& meaning;
  const LoadPlan* plan;
  const std::vector<Coverage>* coverage;
  std::size_t ranks;

  const TensorView& tensor(std::uint32_t index) const { return headers.tensors[index]; }

  /// The load went to its end (a strict check after it may have raised): what is missing then is missing for good.
  bool load_returned() const { return plan != nullptr && plan->loaded.has_value(); }

  /// What the engine prints or raises about one tensor or parameter; empty: nothing.
  std::string said_of_tensor(std::uint32_t index) const;
  std::string said_of_parameter(std::uint32_t index) const;

  /// True where the files give the weight of a layer without a problem. key  as weight_key spells it
  bool is_meant(std::size_t layer, const std::string& key) const { return meant_.contains({layer, key}); }

  /// Problem of the files with this tensor, nullptr where there is none.
  const MeaningProblem* problem_of(std::uint32_t tensor) const;

 private:
  std::set<std::pair<std::size_t, std::string>> meant_;
  std::unordered_map<std::uint32_t, const MeaningProblem*> problems_;
  std::unordered_map<std::uint32_t, const EngineWarning*> warnings_;
  std::unordered_set<std::uint32_t> unassigned_;
};

/// "bfloat16 [64, 128]"
std::string kind_of(const TensorView& tensor);

}  // namespace mtpcheck
