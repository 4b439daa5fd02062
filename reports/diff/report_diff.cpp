#include "reports/diff/report_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "reference/tensor/error.h"
#include "reports/record/append.h"
#include "reports/record/table.h"
#include "reports/terminal/report_view.h"
#include "reports/terminal/text_table.h"

namespace mtpcheck::reports {
namespace {

using Facts = std::map<std::string, std::string>;

Facts facts_of(const Report& report) {
  Facts facts{{"verdict", report.pass ? "pass" : "fail"},
              {"checkpoint.identity", report.checkpoint.identity},
              {"run.tool_version", report.run.tool_version},
              {"run.processor", report.run.processor}};
  for (const auto& side : report.sides) {
    facts[side.role + ".head"] = side.head;
    facts[side.role + ".dtype"] = side.dtype;
    for (const auto& convention : side.conventions) facts[side.role + "." + convention.key] = convention.value;
  }
  if (!report.comparison) return facts;
  const auto& tolerance = report.comparison->tolerance;
  facts["tolerance"] = fmt::format("{} k={:g} floor={:g} row={:g}", tolerance.precision, tolerance.k,
                                   tolerance.floor_ulps, tolerance.row_factor);
  facts["first_divergent_stage"] = report.comparison->first_divergent_stage;
  facts["tokens"] = std::to_string(report.comparison->tokens);
  return facts;
}

/// Every cell of the verbs' own tables, and every finding.
Facts values_of(const Report& report) {
  Facts values;
  for (const auto& table : report.tables) {
    for (const auto& column : table.columns) {
      for (std::size_t row = 0; row < column.rows(); ++row) {
        values[fmt::format("{}[{}].{}", table.name, row, column.name)] = cell_text(column, row);
      }
    }
  }
  for (const auto& finding : report.findings) {
    values[fmt::format("finding {} {}", finding.id, finding.subject)] = finding.message;
  }
  return values;
}

std::vector<ValueChange> changes(const Facts& before, const Facts& after) {
  std::vector<ValueChange> list;
  for (const auto& [what, value] : before) {
    const auto found = after.find(what);
    const std::string now = found == after.end() ? "absent" : found->second;
    if (now != value) list.push_back({what, value, now});
  }
  for (const auto& [what, value] : after) {
    if (!before.contains(what)) list.push_back({what, "absent", value});
  }
  return list;
}

const StageRecord* stage_called(const Report& report, const std::string& name) {
  if (!report.comparison) return nullptr;
  const auto& stages = report.comparison->stages;
  const auto found = std::ranges::find(stages, name, &StageRecord::name);
  return found == stages.end() ? nullptr : &*found;
}

/// Choices have no error; the share of rows that chose otherwise stands for it.
double error_of(const StageRecord& stage) {
  if (!stage.selection) return stage.cumulative.rms;
  const auto rows = static_cast<double>(std::max<std::int64_t>(stage.selection->rows, 1));
  return static_cast<double>(stage.selection->unexcused_rows) / rows;
}

StageChange change_of(const StageRecord& before, const StageRecord& after, double ratio) {
  StageChange change{after.name,
                     Change::same,
                     error_of(before),
                     error_of(after),
                     before.cumulative.allowance_used,
                     after.cumulative.allowance_used};
  if (before.pass != after.pass) {
    change.change = after.pass ? Change::fixed : Change::broken;
  } else if (!(change.rms_after <= change.rms_before * ratio)) {
    change.change = Change::worse;
  } else if (change.rms_after * ratio < change.rms_before) {
    change.change = Change::better;
  }
  return change;
}

std::vector<StageChange> stage_changes(const Report& before, const Report& after, double ratio) {
  std::vector<StageChange> list;
  if (after.comparison) {
    for (const auto& stage : after.comparison->stages) {
      const StageRecord* const earlier = stage_called(before, stage.name);
      if (earlier == nullptr) {
        list.push_back({stage.name, Change::only_after, 0, error_of(stage), 0, stage.cumulative.allowance_used});
      } else {
        list.push_back(change_of(*earlier, stage, ratio));
      }
    }
  }
  if (before.comparison) {
    for (const auto& stage : before.comparison->stages) {
      if (stage_called(after, stage.name) != nullptr) continue;
      list.push_back({stage.name, Change::only_before, error_of(stage), 0, stage.cumulative.allowance_used, 0});
    }
  }
  return list;
}

void require_one_verb(const Report& before, const Report& after) {
  if (before.verb == after.verb) return;
  throw usage_error(
      fmt::format("the earlier report is one of '{}', the later one of '{}': expected two of the same verb",
                  before.verb, after.verb));
}

/// Falls by less than the intervals are noise; a rate without an interval is one of no width.
bool fell(const RowReader& before, const RowReader& after, const std::string& kind) {
  if (before.integer(kind + "_sound", 1) == 0 || after.integer(kind + "_sound", 1) == 0) return false;
  const double earlier = before.number(kind + "_rate");
  const double later = after.number(kind + "_rate");
  if (std::isnan(earlier)) return false;
  return !(later >= before.number(kind + "_low", earlier)) || !(after.number(kind + "_high", later) >= earlier);
}

std::vector<ValueChange> fallen_acceptances(const Report& before, const Report& after) {
  std::vector<ValueChange> list;
  const Table* const earlier = find_table(before, "acceptance");
  const Table* const later = find_table(after, "acceptance");
  if (earlier == nullptr || later == nullptr) return list;
  const auto what = [](const RowReader& row, const std::string& kind) {
    return fmt::format("acceptance {} depth {} {}", row.text("series"), row.integer("depth"), kind);
  };
  std::map<std::pair<std::string, std::int64_t>, std::size_t> rows;
  for (std::size_t i = 0; i < earlier->rows(); ++i) {
    const RowReader row(*earlier, i);
    rows.emplace(std::pair{row.text("series"), row.integer("depth")}, i);
  }
  for (std::size_t i = 0; i < later->rows(); ++i) {
    const RowReader now(*later, i);
    const auto found = rows.find({now.text("series"), now.integer("depth")});
    if (found == rows.end()) continue;
    const RowReader then(*earlier, found->second);
    rows.erase(found);
    for (const std::string kind : {"greedy", "expected"}) {
      if (!fell(then, now, kind)) continue;
      list.push_back({what(now, kind), fmt::format("{:.6g}", then.number(kind + "_rate")),
                      fmt::format("{:.6g}", now.number(kind + "_rate"))});
    }
  }
  for (const auto& [key, i] : rows) {  // what is not measured any more may be anything
    const RowReader then(*earlier, i);
    for (const std::string kind : {"greedy", "expected"}) {
      const double rate = then.number(kind + "_rate");
      if (!std::isnan(rate)) list.push_back({what(then, kind), fmt::format("{:.6g}", rate), "absent"});
    }
  }
  return list;
}

Colour colour_of(Change change) {
  if (change == Change::worse || change == Change::broken) return Colour::red;
  if (change == Change::better || change == Change::fixed) return Colour::green;
  return Colour::none;
}

std::string render_values(const std::vector<ValueChange>& values) {
  std::string text;
  for (const auto& value : values) text += fmt::format("{}: {} -> {}\n", value.what, value.before, value.after);
  return text;
}

}  // namespace

std::string_view to_string(Change change) {
  switch (change) {
    case Change::same:
      return "same";
    case Change::better:
      return "better";
    case Change::worse:
      return "worse";
    case Change::fixed:
      return "fixed";
    case Change::broken:
      return "broken";
    case Change::only_before:
      return "gone";
    case Change::only_after:
      return "new";
  }
  return "same";
}

ReportDiff diff(const Report& before, const Report& after, double ratio) {
  require_one_verb(before, after);
  ReportDiff result{changes(facts_of(before), facts_of(after)), stage_changes(before, after, ratio),
                    changes(values_of(before), values_of(after)), fallen_acceptances(before, after),
                    before.pass && !after.pass};
  result.worse = result.worse || !result.fallen.empty();
  for (const auto& stage : result.stages) {
    result.worse = result.worse || stage.change == Change::worse || stage.change == Change::broken;
  }
  return result;
}

std::string render_diff(const ReportDiff& diff, bool colours) {
  std::string text = render_values(diff.circumstances);
  TextTable table({{"stage", TextTable::Align::left},
                   {"rms before"},
                   {"rms after"},
                   {"of allowance"},
                   {"after"},
                   {"change", TextTable::Align::left}});
  std::size_t same = 0;
  for (const auto& stage : diff.stages) {
    if (stage.change == Change::same) {
      ++same;
      continue;
    }
    table.add({{stage.name},
               {fmt::format("{:.2e}", stage.rms_before)},
               {fmt::format("{:.2e}", stage.rms_after)},
               {percent_of_allowance(stage.used_before)},
               {percent_of_allowance(stage.used_after)},
               {std::string(to_string(stage.change)), colour_of(stage.change)}});
  }
  if (same < diff.stages.size()) text += table.render(colours);
  if (same > 0) text += fmt::format("{} stages the same\n", same);
  text += render_values(diff.values);
  for (const auto& each : diff.fallen) {
    text += fmt::format("worse: {} fell from {} to {}\n", each.what, each.before, each.after);
  }
  if (text.empty()) text = "no difference\n";
  return text;
}

}  // namespace mtpcheck::reports
