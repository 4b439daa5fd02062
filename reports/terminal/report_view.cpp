#include "reports/terminal/report_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "reports/record/table.h"
#include "reports/terminal/text_table.h"

namespace mtpcheck::reports {
namespace {

using Align = TextTable::Align;

constexpr std::size_t kRowsShown = 40;  // of a verb's own table; the file has all

std::string number(double value) {
  if (value == 0) return "0";
  return fmt::format("{:.2e}", value);
}

TextTable::Cell verdict_cell(bool pass) { return {pass ? "pass" : "FAIL", pass ? Colour::green : Colour::red}; }

TextTable::Cell used_cell(double used) {
  const Colour colour = !(used <= 1) ? Colour::red : used > 0.5 ? Colour::yellow : Colour::none;
  return {percent_of_allowance(used), colour};
}

bool any_replay(const ComparisonRecord& comparison) {
  return std::ranges::any_of(comparison.stages,
                             [](const auto& stage) { return stage.replay || stage.selection_replay; });
}

std::string selection_text(const SelectionRecord& selection) {
  if (selection.flipped_rows == 0) return "0 flips";
  if (selection.unexcused_rows == 0) return fmt::format("{} excused", selection.excused_rows);
  if (selection.excused_rows == 0) return fmt::format("{} flips", selection.unexcused_rows);
  return fmt::format("{} flips, {} excused", selection.unexcused_rows, selection.excused_rows);
}

std::vector<TextTable::Cell> stage_row(const StageRecord& stage, bool with_replay) {
  const std::string name = stage.name + (stage.forced ? " *" : "");
  std::vector<TextTable::Cell> row{{name, stage.pass ? Colour::none : Colour::bold}};
  if (stage.missing) {
    row.insert(row.end(), {{"missing", Colour::red}, {}, {}, {}, {}});
  } else if (stage.selection) {
    const double share = stage.selection->rows == 0 ? 0
                                                    : static_cast<double>(stage.selection->unexcused_rows) /
                                                          static_cast<double>(stage.selection->rows);
    row.insert(row.end(), {{number(share), share > 0 ? Colour::red : Colour::none},
                           {},
                           {},
                           {},
                           {selection_text(*stage.selection), Colour::none}});
  } else {
    const auto& error = stage.cumulative;
    row.insert(row.end(), {{number(error.max_abs)},
                           {number(error.rms)},
                           {number(error.relative_l2)},
                           {number(error.cosine_distance)},
                           used_cell(error.allowance_used)});
  }
  row.push_back(verdict_cell(stage.selection ? stage.selection->unexcused_rows == 0 && !stage.missing
                                             : stage.cumulative.pass && !stage.missing));
  if (with_replay) {
    if (stage.replay) {
      row.push_back(used_cell(stage.replay->allowance_used));
      row.push_back(verdict_cell(stage.replay->pass));
    } else if (stage.selection_replay) {
      row.push_back({selection_text(*stage.selection_replay)});
      row.push_back(verdict_cell(stage.selection_replay->unexcused_rows == 0));
    } else {
      row.insert(row.end(), {{"–", Colour::dim}, {"–", Colour::dim}});
    }
  }
  return row;
}

bool fails_in_replay(const StageRecord& stage) {
  return (stage.replay && !stage.replay->pass) ||
         (stage.selection_replay && stage.selection_replay->unexcused_rows > 0);
}

/// Worth a line of its own: the first stage that differs, what fails in replay, and what replay says nothing about. The
/// rest are consequences.
bool is_told(const StageRecord& stage, const ComparisonRecord& comparison) {
  if (stage.reason.empty()) return false;
  const bool replayed = stage.replay || stage.selection_replay;
  return stage.name == comparison.first_divergent_stage || !replayed || fails_in_replay(stage);
}

std::string failure_lines(const ComparisonRecord& comparison, bool colours) {
  std::string text;
  std::size_t consequences = 0;
  for (const auto& stage : comparison.stages) {
    if (!is_told(stage, comparison)) {
      consequences += stage.reason.empty() ? 0 : 1;
      continue;
    }
    text += fmt::format("  {}: {}\n", coloured(stage.name, Colour::bold, colours), stage.reason);
    if (stage.likely_cause.empty()) continue;
    text +=
        fmt::format("  {}\n", coloured(fmt::format("{}: {}", stage.name, stage.likely_cause), Colour::yellow, colours));
  }
  if (consequences > 0) {
    text += fmt::format("  {} more stages differ, but are right on the inputs they were given\n", consequences);
  }
  for (const auto& unmatched : comparison.unmatched) {
    text += fmt::format("  unmatched in the {}: {}{}\n", unmatched.side, unmatched.name,
                        unmatched.suggestion.empty() ? "" : " (perhaps " + unmatched.suggestion + ")");
  }
  return text;
}

std::string source_of(const ConventionRecord& convention) {
  return convention.source.empty() ? convention.level : convention.source;
}

/// "reference f64: rope=half-split k_norm_eps=1e-06 (mtpcheck.json); group_routing=false (built-in …)"
std::string side_line(const SideRecord& side) {
  std::vector<std::pair<std::string, std::string>> by_source;
  for (const auto& convention : side.conventions) {
    const std::string source = source_of(convention);
    auto found = std::ranges::find(by_source, source, &std::pair<std::string, std::string>::first);
    if (found == by_source.end()) found = by_source.insert(by_source.end(), {source, {}});
    found->second += fmt::format("{}={} ", convention.key, convention.value);
  }
  std::string text = fmt::format("{:<10} {}", side.role, side.head);
  for (std::size_t i = 0; i < by_source.size(); ++i) {
    text += fmt::format("{}{}({})", i == 0 ? ": " : "; ", by_source[i].second, by_source[i].first);
  }
  return text + "\n";
}

/// The candidate's, where the reference is the same: only what differs.
std::string side_lines(const std::vector<SideRecord>& sides) {
  std::string text;
  for (const auto& side : sides) {
    if (&side == &sides.front() || side.conventions.empty()) {
      text += side_line(side);
      continue;
    }
    SideRecord different = side;
    std::erase_if(different.conventions, [&](const ConventionRecord& convention) {
      const auto& first = sides.front().conventions;
      const auto found = std::ranges::find(first, convention.key, &ConventionRecord::key);
      return found != first.end() && found->value == convention.value;
    });
    std::string line = side_line(different);
    if (different.conventions.empty()) line.insert(line.size() - 1, ": the same conventions");
    text += line;
  }
  return text;
}

std::string render_table(const Table& table, bool colours) {
  std::vector<TextTable::Heading> headings;
  for (const auto& column : table.columns) {
    const bool text = std::holds_alternative<std::vector<std::string>>(column.values);
    headings.push_back({column.name, text ? Align::left : Align::right});
  }
  TextTable lines(headings);
  const std::size_t shown = std::min(table.rows(), kRowsShown);
  for (std::size_t row = 0; row < shown; ++row) {
    std::vector<TextTable::Cell> cells;
    for (const auto& column : table.columns) cells.push_back({cell_text(column, row)});
    lines.add(std::move(cells));
  }
  std::string text = fmt::format("\n{}: {}\n{}", table.name, table.title, lines.render(colours));
  if (shown < table.rows()) text += fmt::format("… {} more rows in the file\n", table.rows() - shown);
  return text;
}

}  // namespace

std::string percent_of_allowance(double used) {
  if (std::isnan(used)) return "–";
  if (used > 9.99) return "> 999 %";
  if (used > 0 && used < 0.01) return "< 1 %";
  return fmt::format("{:.0f} %", used * 100);
}

std::string render_comparison(const ComparisonRecord& comparison, bool colours) {
  const bool with_replay = any_replay(comparison);
  std::vector<TextTable::Heading> headings{
      {"stage", Align::left},  {"max |Δ|"}, {"rms Δ"}, {"rel L2"}, {"cos dist"}, {"of allowance"},
      {"verdict", Align::left}};
  if (with_replay) {
    headings.push_back({"replay"});
    headings.push_back({"replay verdict", Align::left});
  }
  TextTable table(headings);
  for (const auto& stage : comparison.stages) table.add(stage_row(stage, with_replay));
  std::string text = table.render(colours);
  const bool forced = std::ranges::any_of(comparison.stages, &StageRecord::forced);
  if (forced) text += "* the reference was run with the candidate's selections here\n";
  for (const auto& note : comparison.notes) text += fmt::format("note: {}\n", note);
  const std::string failures = failure_lines(comparison, colours);
  if (!failures.empty()) text += "\n" + failures;
  text += fmt::format("\nverdict: {}", comparison.pass ? coloured("pass", Colour::green, colours)
                                                       : coloured("FAIL", Colour::red, colours));
  if (!comparison.first_divergent_stage.empty()) {
    text += fmt::format(", first divergent stage {}", comparison.first_divergent_stage);
  }
  if (!comparison.first_failing_stage_in_replay.empty()) {
    text += fmt::format(", first failing stage in replay {}", comparison.first_failing_stage_in_replay);
  }
  return text + "\n";
}

std::string render_report(const Report& report, bool colours) {
  std::string text;
  if (!report.checkpoint.path.empty()) {
    text += fmt::format("checkpoint {} ({} files, {:.1f} MB, {})\n", report.checkpoint.path, report.checkpoint.files,
                        static_cast<double>(report.checkpoint.bytes) / 1e6, report.checkpoint.identity.substr(0, 23));
  }
  text += side_lines(report.sides);
  if (report.comparison) {
    const auto& tolerance = report.comparison->tolerance;
    text +=
        fmt::format("{} rows, {} sequences; allowance {:g} x the error of the reference rounded to {}, + {:g} ulp\n\n",
                    report.comparison->tokens, std::max<std::size_t>(report.comparison->sequence_starts.size(), 1) - 1,
                    tolerance.k, tolerance.precision, tolerance.floor_ulps);
    text += render_comparison(*report.comparison, colours);
  }
  for (const auto& finding : report.findings) {
    text += fmt::format("{} {}: {}\n", finding.severity, finding.id, finding.message);
  }
  for (const auto& table : report.tables) text += render_table(table, colours);
  if (!report.comparison) {
    text += fmt::format("\nverdict: {}\n", report.pass ? coloured("pass", Colour::green, colours)
                                                       : coloured("FAIL", Colour::red, colours));
  }
  if (!report.run.repro.empty()) text += fmt::format("repro: {}\n", report.run.repro);
  return text;
}

}  // namespace mtpcheck::reports
