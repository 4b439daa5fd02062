#include "harness/cli/accept/print_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/record/append.h"

namespace mtpcheck::cli {
namespace {

using reports::RowReader;

// Calls visit(row) for the rows of a series in a table.
template <class Visit>
void for_each_row(const reports::Report& report, std::string_view table_name, const std::string& series, Visit visit) {
  const auto* const table = reports::find_table(report, table_name);
  for (std::size_t i = 0; table != nullptr && i < table->rows(); ++i) {
    const RowReader row(*table, i);
    if (row.text("series") == series) visit(row);
  }
}

bool reported(const reports::Report& report, std::string_view table, const std::string& column) {
  const auto* const found = reports::find_table(report, table);
  return found != nullptr && reports::find_column(*found, column) != nullptr;
}

std::string label(const RowReader& row, const std::string& kind) {
  return row.integer(kind + "_sound") != 0 ? "" : "   (" + row.text(kind + "_note") + ")";
}

void print_depths(const reports::Report& report, const std::string& name) {
  const bool greedy = reported(report, "acceptance", "greedy_rate");
  const bool expected = reported(report, "acceptance", "expected_rate");
  for_each_row(report, "acceptance", name, [&](const RowReader& row) {
    if (greedy) {
      fmt::print("  depth {:<2} greedy    {:6.2f} % [{:.2f}, {:.2f}]  {:.0f} / {:.0f}, length {:.4f}{}\n",
                 row.integer("depth"), 100 * row.number("greedy_rate"), 100 * row.number("greedy_low"),
                 100 * row.number("greedy_high"), row.number("accepted"), row.number("drafted"),
                 row.number("greedy_length"), label(row, "greedy"));
    }
    if (!expected) return;
    const double low = row.number("expected_bound_low");
    const double high = row.number("expected_bound_high");
    const std::string bounds =
        high > low ? fmt::format(", between {:.2f} and {:.2f} %", 100 * low, 100 * high) : std::string();
    fmt::print("  depth {:<2} rejection {:6.2f} % [{:.2f}, {:.2f}]  {:.2f} / {:.0f}, length {:.4f}{}{}\n",
               row.integer("depth"), 100 * row.number("expected_rate"), 100 * row.number("expected_low"),
               100 * row.number("expected_high"), row.number("expected_sum"), row.number("expected_rows"),
               row.number("expected_length"), bounds, label(row, "expected"));
  });
}

// A line a figure, the verifications side by side.
void print_metrics(const reports::Report& report, const std::string& name) {
  std::vector<std::pair<std::string, std::string>> lines;  // figure and its values, in the order of the table
  for_each_row(report, "acceptance_metrics", name, [&](const RowReader& row) {
    const std::string figure = fmt::format("{:<10} {:<42}", row.text("engine"), row.text("name"));
    auto line = std::ranges::find(lines, figure, &std::pair<std::string, std::string>::first);
    if (line == lines.end()) line = lines.insert(lines.end(), {figure, ""});
    const bool greedy = row.text("verification") == "greedy";
    line->second += fmt::format(" {} {:.4f} = {:.{}f} / {:.{}f}", greedy ? "greedy" : "  rejection",
                                row.number("value"), row.number("numerator"), greedy ? 0 : 2, row.number("denominator"),
                                greedy || row.number("denominator") == std::floor(row.number("denominator")) ? 0 : 2);
  });
  for (const auto& [figure, values] : lines) fmt::print("  {} {}\n", figure, values);
}

void print_paired(const reports::Report& report, const std::string& name) {
  const bool greedy = reported(report, "acceptance_paired", "greedy_difference");
  const bool expected = reported(report, "acceptance_paired", "expected_difference");
  const auto one = [](const RowReader& row, const std::string& kind, const char* called) {
    return fmt::format(" {} {:+.2f} points [{:+.2f}, {:+.2f}] p {:.3g}", called, 100 * row.number(kind + "_difference"),
                       100 * row.number(kind + "_low"), 100 * row.number(kind + "_high"), row.number(kind + "_p"));
  };
  for_each_row(report, "acceptance_paired", name, [&](const RowReader& row) {
    fmt::print("  depth {:<2} against {}:{}{}{}\n", row.integer("depth"), row.text("baseline"),
               greedy ? one(row, "greedy", "greedy") : "", greedy && expected ? "," : "",
               expected ? one(row, "expected", "rejection") : "");
  });
}

void print_loop(const reports::Report& report, const std::string& name) {
  for_each_row(report, "acceptance_loop", name, [](const RowReader& row) {
    if (row.text("engine") != "mtpcheck" || row.text("name") != "tokens per step") return;
    fmt::print("  loop, {} verification: {:.4f} tokens a step = {:.0f} / {:.0f}\n", row.text("verification"),
               row.number("value"), row.number("numerator"), row.number("denominator"));
  });
}

void print_speedup(const reports::Report& report, const std::string& name) {
  for_each_row(report, "acceptance_speedup", name, [&](const RowReader& row) {
    std::string speedups;
    for (const auto& [kind, called] : {std::pair{"greedy", "greedy"}, std::pair{"expected", "rejection"}}) {
      if (!reported(report, "acceptance_speedup", kind)) continue;
      const bool sound = row.integer(std::string(kind) + "_sound") != 0;
      speedups += fmt::format(" {} {:.3f}{}", called, row.number(kind), sound ? "" : " (not sound)");
    }
    fmt::print("  {} draft{} a step at {} + {}: speed-up{}\n", row.integer("depth"),
               row.integer("depth") == 1 ? "" : "s", row.number("draft_cost"), row.number("verify_cost"), speedups);
  });
}

}  // namespace

void print_series(const reports::Report& report, const std::string& name) {
  std::size_t sequences = 0;
  std::int64_t chains = 0;
  for_each_row(report, "acceptance_sequences", name, [&](const RowReader& row) {
    if (row.integer("depth") != 1) return;
    ++sequences;
    chains += row.integer("chains");
  });
  std::string origin;
  for_each_row(report, "acceptance", name, [&](const RowReader& row) { origin = row.text("origin"); });
  fmt::print("{} on {} {} traces, {} chains\n", name, sequences, origin, chains);
  print_depths(report, name);
  print_metrics(report, name);
  print_paired(report, name);
  print_loop(report, name);
  print_speedup(report, name);
}

}  // namespace mtpcheck::cli
