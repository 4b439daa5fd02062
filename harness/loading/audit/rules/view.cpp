#include "harness/loading/audit/rules/view.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/loading/audit/words/pieces.h"

namespace mtpcheck {

AuditView::AuditView(const HeadConfig& head_config, const nlohmann::json& whole_config, const HeaderSet& header_set,
                     const Meaning& what_is_meant, const LoadPlan* load_plan,
                     const std::vector<Coverage>* plan_coverage, std::size_t rank_count)
    : config(head_config),
      config_json(whole_config),
      headers(header_set),
      meaning(what_is_meant),
      plan(load_plan),
      coverage(plan_coverage),
      ranks(rank_count) {
  for (const auto& weight : meaning.weights) meant_.emplace(weight.layer, weight_key(weight.name));
  if (meaning.embed_tokens.tensor != kNoTensor) meant_.emplace(0, "embed_tokens");
  for (const auto& problem : meaning.problems) {
    for (const auto index : problem.tensors) problems_.emplace(index, &problem);
  }
  if (plan == nullptr) return;
  for (const auto& warning : plan->warnings) {
    if (warning.tensor != kNone) warnings_.emplace(warning.tensor, &warning);
  }
  unassigned_.insert(plan->unassigned.begin(), plan->unassigned.end());
}

std::string AuditView::said_of_tensor(std::uint32_t index) const {
  if (plan == nullptr) return {};
  if (plan->exception && plan->exception->tensor == index) {
    return fmt::format("{}: {}", plan->exception->type, plan->exception->message);
  }
  const auto warned = warnings_.find(index);
  return warned == warnings_.end() ? std::string{} : "warning: " + warned->second->text;
}

std::string AuditView::said_of_parameter(std::uint32_t index) const {
  if (plan == nullptr) return {};
  if (plan->exception && std::ranges::count(plan->exception->parameters, index) != 0) {
    return fmt::format("{} in its strict check", plan->exception->type);
  }
  return unassigned_.contains(index) ? "warning: received no checkpoint value" : "";
}

const MeaningProblem* AuditView::problem_of(std::uint32_t tensor) const {
  const auto found = problems_.find(tensor);
  return found == problems_.end() ? nullptr : found->second;
}

std::string kind_of(const TensorView& tensor) {
  return fmt::format("{} {}", torch_name(tensor.dtype), to_string(tensor.shape));
}

}  // namespace mtpcheck
