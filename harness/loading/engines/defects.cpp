#include "harness/loading/engines/defects.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace mtpcheck {
namespace {

/// Name of each parameter of each engine → name of its row.
std::vector<std::map<std::string, std::string>> row_names(std::span<const EngineAudit> audits,
                                                          std::span<const PairedParameters> rows) {
  std::vector<std::map<std::string, std::string>> names(audits.size());
  for (const PairedParameters& row : rows) {
    for (std::size_t engine = 0; engine < audits.size(); ++engine) {
      for (const auto index : row.parameters[engine]) {
        names[engine].emplace(audits[engine].audit->plan->parameters[index].name, row.name);
      }
    }
  }
  return names;
}

}  // namespace

std::string_view to_string(Voice voice) {
  constexpr std::array<std::string_view, 4> kWords{"silent", "warns", "raises", "refuses"};
  return kWords[static_cast<std::size_t>(voice)];
}

Voice voice_of(const Finding& finding) {
  if (finding.engine_says.empty()) return Voice::silent;
  if (finding.engine_says.starts_with("warning")) return Voice::warns;
  return finding.id == "config-refused" || finding.id == "indivisible" ? Voice::refuses : Voice::raises;
}

std::vector<Defect> defects_of(std::span<const EngineAudit> audits, std::span<const PairedParameters> rows) {
  const auto names = row_names(audits, rows);
  std::vector<Defect> defects;
  std::map<std::pair<std::string, std::string>, std::size_t> place;
  for (std::size_t engine = 0; engine < audits.size(); ++engine) {
    for (const Finding& finding : audits[engine].audit->findings) {
      const auto row = names[engine].find(finding.subject);
      const std::string& subject = row == names[engine].end() ? finding.subject : row->second;
      const auto [at, fresh] = place.emplace(std::pair{finding.id, subject}, defects.size());
      if (fresh) {
        defects.push_back({finding.id, finding.severity, subject, {}});
        defects.back().findings.resize(audits.size());
      }
      Defect& defect = defects[at->second];
      defect.severity = std::max(defect.severity, finding.severity);
      if (!defect.findings[engine]) defect.findings[engine] = finding;
    }
  }
  std::ranges::stable_sort(defects, [](const Defect& a, const Defect& b) { return a.severity > b.severity; });
  return defects;
}

}  // namespace mtpcheck
