#include "harness/gate/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "reference/tensor/error.h"
#include "reports/record/append.h"

namespace mtpcheck {
namespace {

using reports::RowReader;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr const char* kNoParameter = "–";  // an engine without that parameter
constexpr const char* kUnmatched = "unmatched";

Measured plain(std::string item, Bound bound, double value, std::string detail = {}, bool wrong = false) {
  return {std::move(item), bound, value, value, value, std::move(detail), wrong};
}

double share(const reports::ErrorRecord& error) {
  return std::isfinite(error.allowance_used) ? error.allowance_used : kInfinity;
}

Measured share_item(std::string item, double value, std::string detail) {
  const bool beyond_allowance = !(value <= 1);
  return plain(std::move(item), Bound::at_most, value, std::move(detail), beyond_allowance);
}

void measure_stages(const reports::ComparisonRecord& comparison, std::vector<Measured>& all) {
  for (const auto& stage : comparison.stages) {
    const std::string item = "stage " + stage.name;
    if (stage.missing) {
      all.push_back(share_item(item + " cumulative", kInfinity, "missing on the candidate's side"));
      continue;
    }
    if (stage.selection) {
      const std::int64_t rows = stage.selection->unexcused_rows;
      all.push_back(plain(item + " unexcused", Bound::at_most, static_cast<double>(rows), stage.reason, rows > 0));
      continue;
    }
    all.push_back(share_item(item + " cumulative", share(stage.cumulative), stage.reason));
    if (stage.replay) all.push_back(share_item(item + " replay", share(*stage.replay), stage.replay->reason));
  }
}

void measure_unmatched(const reports::ComparisonRecord& comparison, std::vector<Measured>& all) {
  std::string names;
  for (const auto& unmatched : comparison.unmatched) {
    names += fmt::format("{}{} in the {}", names.empty() ? "" : ", ", unmatched.name, unmatched.side);
  }
  all.push_back(plain(kUnmatched, Bound::at_most, static_cast<double>(comparison.unmatched.size()), std::move(names)));
}

void measure_acceptance(const reports::Table& table, std::vector<Measured>& all) {
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const RowReader row(table, i);
    for (const std::string kind : {"greedy", "expected"}) {
      if (row.integer(kind + "_sound") == 0) continue;
      all.push_back({fmt::format("acceptance {} depth {} {}", row.text("series"), row.integer("depth"), kind),
                     Bound::at_least,
                     row.number(kind + "_rate"),
                     row.number(kind + "_low"),
                     row.number(kind + "_high"),
                     {}});
    }
  }
}

void measure_table(const reports::Report& report, std::string_view name, std::string_view prefix, std::string_view key,
                   std::string_view value, Bound bound, std::vector<Measured>& all) {
  const auto* const table = reports::find_table(report, name);
  for (std::size_t i = 0; table != nullptr && i < table->rows(); ++i) {
    const RowReader row(*table, i);
    all.push_back(plain(fmt::format("{} {}", prefix, row.text(key)), bound, row.number(value)));
  }
}

// A parameter without elements has nothing to lack.
double written_share(const RowReader& row) {
  const auto elements = static_cast<double>(row.integer("elements"));
  return elements > 0 ? static_cast<double>(row.integer("written")) / elements : 1;
}

// The share of each parameter's elements that a load wrote, in one engine or in each of several.
void measure_coverage(const reports::Report& report, std::vector<Measured>& all) {
  const auto* const one = reports::find_table(report, "parameters");
  for (std::size_t i = 0; one != nullptr && i < one->rows(); ++i) {
    const RowReader row(*one, i);
    all.push_back(plain(fmt::format("coverage {}", row.text("name")), Bound::at_least, written_share(row)));
  }
  const auto* const several = reports::find_table(report, "engine_parameters");
  for (std::size_t i = 0; several != nullptr && i < several->rows(); ++i) {
    const RowReader row(*several, i);
    if (row.text("status") == kNoParameter) continue;
    all.push_back(plain(fmt::format("coverage {} {}", row.text("engine"), row.text("name")), Bound::at_least,
                        written_share(row)));
  }
}

// Engines of which one ends without a head are no failure by themselves: what stops it is a finding.
void measure_engines(const reports::Report& report, std::vector<Measured>& all) {
  const auto* const table = reports::find_table(report, "engine_heads");
  for (std::size_t i = 0; table != nullptr && i < table->rows(); ++i) {
    const RowReader row(*table, i);
    const std::string verdict = row.text("verdict");
    const std::string why = row.text("why");
    all.push_back(plain(fmt::format("engines {} / {} same head", row.text("first"), row.text("second")),
                        Bound::at_least, verdict == "same head" ? 1 : 0,
                        fmt::format("{}{}{}", verdict, why.empty() ? "" : ": ", why), verdict == "different heads"));
  }
}

// What is agreed on where a baseline says nothing.
std::optional<Limit> limit_by_default(const Measured& measured) {
  if (measured.item != kUnmatched) return std::nullopt;
  return Limit{measured.item, Bound::at_most, 0, "none unless a baseline allows it", 0};
}

// Beyond the limit for certain: the whole interval lies on the wrong side.
bool beyond(const Measured& measured, const Limit& limit) {
  switch (limit.bound) {
    case Bound::at_most:
      return !(measured.low <= limit.value);
    case Bound::at_least:
      return !(measured.high >= limit.value);
    case Bound::allowed:
      return false;
  }
  return true;
}

std::string describe(const Measured& measured, const Limit& limit) {
  const std::string interval =
      measured.low < measured.high ? fmt::format(" [{:.4g}, {:.4g}]", measured.low, measured.high) : std::string();
  const char* const word = limit.bound == Bound::at_most ? "at most" : "at least";
  return fmt::format("{:.6g}{}, {} {:.6g} was agreed ({})", measured.value, interval, word, limit.value, limit.reason);
}

// To three significant digits, never to the inside of the limit.
double rounded_outwards(double value, bool up) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10.0, std::floor(std::log10(std::fabs(value))) - 2);
  return (up ? std::ceil(value / unit) : std::floor(value / unit)) * unit;
}

std::string fresh_message(const Measured& measured) {
  if (measured.bound == Bound::allowed) return measured.detail;
  const bool told = measured.wrong && !measured.detail.empty();
  return fmt::format("{:.6g}, no limit agreed{}{}", measured.value, told ? ": " : "", told ? measured.detail : "");
}

GateItem held_to(Measured measured, const Limit& limit) {
  const bool worse = beyond(measured, limit);
  std::string message = limit.bound == Bound::allowed ? limit.reason : describe(measured, limit);
  if (worse && !measured.detail.empty()) message += ": " + measured.detail;
  return {worse ? ItemState::worsened : ItemState::held, std::move(measured), limit, std::move(message)};
}

// Counts are no measurements: another host has the same.
double agreed_value(const Measured& measured, double headroom) {
  if (!std::isfinite(measured.value)) {
    throw input_error(fmt::format("{} is {:g}{}{}: no limit can be agreed on; expected a finite figure", measured.item,
                                  measured.value, measured.detail.empty() ? "" : ", ", measured.detail));
  }
  if (measured.item == kUnmatched) return measured.value;
  const bool upper = measured.bound == Bound::at_most;
  return rounded_outwards(upper ? measured.value * (1 + headroom) : measured.value, upper);
}

}  // namespace

std::string_view to_string(ItemState state) {
  switch (state) {
    case ItemState::held:
      return "held";
    case ItemState::worsened:
      return "worsened";
    case ItemState::fresh:
      return "new";
    case ItemState::fixed:
      return "fixed";
    case ItemState::missing:
      return "missing";
  }
  return {};
}

std::vector<Measured> measure(const reports::Report& report) {
  std::vector<Measured> all;
  if (report.comparison) {
    measure_stages(*report.comparison, all);
    measure_unmatched(*report.comparison, all);
  }
  for (const auto& finding : report.findings) {
    if (finding.severity == "info") continue;
    const std::string item = fmt::format("finding {} {}", finding.id, finding.subject);
    const bool known = std::ranges::find(all, item, &Measured::item) != all.end();
    if (!known) all.push_back(plain(item, Bound::allowed, 1, finding.message, true));
  }
  if (const auto* const table = reports::find_table(report, "acceptance")) measure_acceptance(*table, all);
  measure_coverage(report, all);
  measure_engines(report, all);
  measure_table(report, "times", "time", "name", "ratio", Bound::at_most, all);
  return all;
}

bool GateItem::fails() const {
  return state == ItemState::worsened || state == ItemState::missing || (state == ItemState::fresh && measured.wrong);
}

bool GateResult::holds() const { return std::ranges::none_of(items, &GateItem::fails); }

GateResult judge(const reports::Report& report, const Baseline& baseline) {
  GateResult result;
  std::map<std::string, const Limit*> limits;
  for (const auto& limit : baseline.limits) limits.emplace(limit.item, &limit);
  for (auto& measured : measure(report)) {
    const auto found = limits.find(measured.item);
    if (found != limits.end()) {
      result.items.push_back(held_to(std::move(measured), *found->second));
      limits.erase(found);
    } else if (const auto by_default = limit_by_default(measured)) {
      result.items.push_back(held_to(std::move(measured), *by_default));
    } else {
      std::string message = fresh_message(measured);
      result.items.push_back({ItemState::fresh, std::move(measured), {}, std::move(message)});
    }
  }
  for (const auto& [item, limit] : limits) {
    const bool finding = limit->bound == Bound::allowed;
    result.items.push_back({finding ? ItemState::fixed : ItemState::missing, plain(item, limit->bound, 0), *limit,
                            finding ? "gone: take it out of the baseline" : "the report has no such figure any more"});
  }
  return result;
}

Baseline updated(const reports::Report& report, const Baseline& baseline, const std::string& reason, double headroom) {
  Baseline fresh;
  for (const auto& measured : measure(report)) {
    const auto before = std::ranges::find(baseline.limits, measured.item, &Limit::item);
    const std::string& why = before == baseline.limits.end() ? reason : before->reason;
    fresh.limits.push_back({measured.item, measured.bound, agreed_value(measured, headroom), why, 0});
  }
  return fresh;
}

}  // namespace mtpcheck
