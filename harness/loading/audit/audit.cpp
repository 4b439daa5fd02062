#include "harness/loading/audit/audit.h"

#include <algorithm>
#include <array>
#include <set>

#include "harness/loading/audit/bytes/byte_findings.h"
#include "harness/loading/audit/rules/rules.h"

namespace mtpcheck {

namespace {

std::vector<ParameterStatus> statuses_of(const AuditView& view) {
  std::vector<ParameterStatus> statuses;
  const bool has_head = std::ranges::any_of(view.headers.tensors,
                                            [](const TensorView& tensor) { return tensor.name == "lm_head.weight"; });
  for (std::uint32_t i = 0; i < view.plan->parameters.size(); ++i) {
    const Parameter& parameter = view.plan->parameters[i];
    const Coverage& coverage = (*view.coverage)[i];
    const bool tied =
        view.config.tie_word_embeddings && !has_head && parameter.name.ends_with("shared_head.head.weight");
    if (coverage.complete()) {
      statuses.push_back(ParameterStatus::loaded);
    } else if (coverage.written > 0) {
      statuses.push_back(ParameterStatus::partial);
    } else if (parameter.role == Role::kv_scale || parameter.origin != Origin::checkpoint || tied) {
      statuses.push_back(ParameterStatus::runtime_default);
    } else {
      statuses.push_back(ParameterStatus::unassigned);
    }
  }
  return statuses;
}

/// One finding an id and subject, the gravest first.
void put_in_order(std::vector<Finding>& findings) {
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  std::set<std::pair<std::string, std::string>> told;
  std::erase_if(findings,
                [&told](const Finding& finding) { return !told.emplace(finding.id, finding.subject).second; });
}

}  // namespace

std::string_view to_string(ParameterStatus status) {
  constexpr std::array<std::string_view, 4> kWords{"loaded", "partial", "unassigned", "runtime-default"};
  return kWords[static_cast<std::size_t>(status)];
}

bool Audit::passes(Severity limit) const {
  return std::ranges::none_of(findings, [limit](const Finding& finding) { return finding.severity >= limit; });
}

std::vector<Finding> file_findings_of(const Checkpoint& checkpoint) {
  std::vector<Finding> findings;
  add_file_findings(checkpoint, findings);
  return findings;
}

Audit audit(const Checkpoint& checkpoint, const HeadConfig& config, const AuditRequest& request) {
  Audit result;
  result.meaning = meaning_of(config, checkpoint.config, checkpoint.headers);
  if (request.loader != nullptr) {
    result.plan = request.loader->plan({.config = config,
                                        .config_json = checkpoint.config,
                                        .headers = checkpoint.headers,
                                        .topology = request.topology,
                                        .kv_cache_dtype = request.kv_cache_dtype,
                                        .config_unchecked = request.config_unchecked});
    result.coverage = coverage_of(*result.plan);
  }
  const AuditView view(config, checkpoint.config, checkpoint.headers, result.meaning,
                       result.plan ? &*result.plan : nullptr, &result.coverage, request.topology.tp_size);
  if (result.plan) result.statuses = statuses_of(view);
  add_file_findings(checkpoint, result.findings);
  add_coverage_findings(view, result.findings);
  add_tensor_findings(view, result.findings);
  add_conversion_findings(view, result.findings);
  add_meaning_findings(view, result.findings);
  add_config_findings(view, result.findings);
  add_byte_findings(view, result.findings);
  add_copy_findings(view, result.findings);
  put_in_order(result.findings);
  return result;
}

}  // namespace mtpcheck
