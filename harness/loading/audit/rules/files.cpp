#include "harness/loading/audit/rules/rules.h"

namespace mtpcheck {

void add_file_findings(const Checkpoint& checkpoint, std::vector<Finding>& findings) {
  for (const Problem& problem : checkpoint.problems) {
    Finding finding;
    finding.id = to_string(problem.id);
    finding.subject = problem.tensor.empty() ? problem.file : problem.tensor;
    finding.found = problem.message;
    finding.expected = problem.expected;
    findings.push_back(std::move(finding));
  }
}

}  // namespace mtpcheck
