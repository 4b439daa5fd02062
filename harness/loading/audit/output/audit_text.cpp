#include "harness/loading/audit/output/audit_text.h"

#include <fmt/format.h>

#include <array>

#include "harness/loading/audit/words/pieces.h"
#include "reports/terminal/text_table.h"

namespace mtpcheck {

namespace {

using reports::Colour;
using reports::TextTable;

std::string heading(const Audit& audit, const Checkpoint& checkpoint) {
  if (!audit.plan) return fmt::format("{}, no loader\n", files_in_words(checkpoint));
  return fmt::format("{}\n{} {}: {}\n", files_in_words(checkpoint), audit.plan->engine, audit.plan->version,
                     statuses_in_words(audit));
}

/// Parameters that are not whole; nothing where all are.
std::string parameters_table(const Audit& audit, bool colours) {
  using Align = TextTable::Align;
  TextTable table({{"parameter", Align::left}, {"status"}, {"covered"}, {"missing", Align::left}});
  bool any = false;
  for (std::size_t i = 0; i < audit.statuses.size(); ++i) {
    const auto status = audit.statuses[i];
    if (status == ParameterStatus::loaded) continue;
    any = true;
    const Coverage& coverage = audit.coverage[i];
    const double share = 100.0 * static_cast<double>(coverage.written) / static_cast<double>(coverage.elements);
    const bool harmless = status == ParameterStatus::runtime_default;
    table.add({{audit.plan->parameters[i].name},
               {std::string(to_string(status)), harmless ? Colour::dim : Colour::red},
               {fmt::format("{:.1f} %", share)},
               {in_words(audit.plan->parameters[i], coverage.missing, 3)}});
  }
  return any ? fmt::format("\n{}", table.render(colours)) : std::string{};
}

}  // namespace

std::string files_in_words(const Checkpoint& checkpoint) {
  return fmt::format("{}: {} tensors in {} files{}", checkpoint.path.string(), checkpoint.headers.tensors.size(),
                     checkpoint.files.size(), checkpoint.headers_only ? ", headers only" : "");
}

std::string statuses_in_words(const Audit& audit) {
  std::array<std::size_t, 4> counts{};
  for (const auto status : audit.statuses) ++counts[static_cast<std::size_t>(status)];
  std::string text = fmt::format("{} parameters:", audit.statuses.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) text += fmt::format(" {} {}", counts[i], to_string(static_cast<ParameterStatus>(i)));
  }
  return text;
}

Colour colour_of(Severity severity) {
  constexpr std::array<Colour, 3> kColours{Colour::dim, Colour::yellow, Colour::red};
  return kColours[static_cast<std::size_t>(severity)];
}

std::string to_text(const Audit& audit, const Checkpoint& checkpoint, bool colours) {
  std::string text = heading(audit, checkpoint) + parameters_table(audit, colours);
  if (!audit.findings.empty()) text += "\n";
  for (const Finding& finding : audit.findings) {
    const std::string mark = fmt::format("{:<7} {}", to_string(finding.severity), finding.id);
    text += fmt::format(
        "{}  {}\n        found     {}\n        expected  {}\n        caused by {}; the engine says {}\n",
        reports::coloured(mark, colour_of(finding.severity), colours), finding.subject, finding.found, finding.expected,
        to_string(finding.cause), finding.engine_says.empty() ? "nothing" : finding.engine_says);
  }
  return text;
}

}  // namespace mtpcheck
