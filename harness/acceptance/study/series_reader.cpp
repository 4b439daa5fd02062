// Series read back from a report: for a sweep that goes on, and as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/acceptance/study/series.h"
#include "reports/record/append.h"

namespace mtpcheck {
namespace {

using reports::Report;
using reports::RowReader;
using OrderedJson = nlohmann::ordered_json;

// Calls visit(table, row) for the rows of a series in a table.
template <class Visit>
void for_rows(const Report& report, std::string_view table_name, const std::string& series, Visit visit) {
  const auto* const table = reports::find_table(report, table_name);
  if (table == nullptr) return;
  for (std::size_t i = 0; i < table->rows(); ++i) {
    const RowReader row(*table, i);
    if (row.text("series") == series) visit(*table, row);
  }
}

// A note is left out where there is none.
OrderedJson with_note(OrderedJson json, const std::string& note) {
  if (!note.empty()) json["note"] = note;
  return json;
}

OrderedJson depth_json(const reports::Table& table, const RowReader& row) {
  OrderedJson json{{"depth", row.integer("depth")}};
  if (reports::find_column(table, "greedy_rate") != nullptr) {
    json["greedy"] = with_note({{"accepted", row.number("accepted")},
                                {"drafted", row.number("drafted")},
                                {"rate", row.number("greedy_rate")},
                                {"ci95", {row.number("greedy_low"), row.number("greedy_high")}},
                                {"sound", row.integer("greedy_sound") != 0}},
                               row.text("greedy_note"));
  }
  if (reports::find_column(table, "expected_rate") != nullptr) {
    json["expected"] = with_note({{"sum", row.number("expected_sum")},
                                  {"rows", row.number("expected_rows")},
                                  {"rate", row.number("expected_rate")},
                                  {"ci95", {row.number("expected_low"), row.number("expected_high")}},
                                  {"bounds", {row.number("expected_bound_low"), row.number("expected_bound_high")}},
                                  {"sound", row.integer("expected_sound") != 0}},
                                 row.text("expected_note"));
  }
  return json;
}

// The length is sound where the acceptance is at every depth.
void add_lengths(OrderedJson& json, const Report& report, const std::string& name) {
  OrderedJson sound = OrderedJson::object();
  for_rows(report, "acceptance", name, [&](const reports::Table& table, const RowReader& row) {
    for (const std::string kind : {"greedy", "expected"}) {
      if (reports::find_column(table, kind + "_rate") == nullptr) continue;
      json["mean_acceptance_length"][kind] = row.number(kind + "_length", 1);
      sound[kind] = sound.value(kind, true) && row.integer(kind + "_sound") != 0;
    }
  });
  json["mean_acceptance_length"]["sound"] = sound;
}

OrderedJson sequences_json(const Report& report, const std::string& name) {
  OrderedJson sequences = OrderedJson::array();
  for_rows(report, "acceptance_sequences", name, [&](const reports::Table& table, const RowReader& row) {
    if (row.integer("depth") == 1) {
      sequences.push_back(
          {{"name", row.text("sequence")}, {"chains", row.integer("chains")}, {"depths", OrderedJson::array()}});
    }
    OrderedJson depth{{"depth", row.integer("depth")}};
    for (const char* column : {"accepted", "drafted", "expected_sum", "expected_rows"}) {
      if (reports::find_column(table, column) != nullptr) depth[column] = row.number(column);
    }
    sequences.back()["depths"].push_back(std::move(depth));
  });
  return sequences;
}

// The rows of a series in a table as objects, without the series and the words of definitions.
OrderedJson rows_json(const Report& report, std::string_view table_name, const std::string& name) {
  OrderedJson rows = OrderedJson::array();
  for_rows(report, table_name, name, [&](const reports::Table& table, const RowReader& row) {
    OrderedJson object;
    for (const auto& column : table.columns) {
      if (column.name == "series" || column.name == "definition") continue;
      if (std::holds_alternative<std::vector<double>>(column.values)) {
        object[column.name] = row.number(column.name);
      } else if (std::holds_alternative<std::vector<std::int64_t>>(column.values)) {
        object[column.name] = row.integer(column.name);
      } else {
        object[column.name] = row.text(column.name);
      }
    }
    rows.push_back(std::move(object));
  });
  return rows;
}

OrderedJson series_json(const Report& report, const std::string& name) {
  OrderedJson json{{"series", name}, {"depths", OrderedJson::array()}};
  for_rows(report, "acceptance", name, [&](const reports::Table& table, const RowReader& row) {
    json["depths"].push_back(depth_json(table, row));
  });
  add_lengths(json, report, name);
  json["sequences"] = sequences_json(report, name);
  for (const std::string part : {"metrics", "histogram", "groups", "loop", "paired", "speedup"}) {
    OrderedJson rows = rows_json(report, "acceptance_" + part, name);
    if (!rows.empty()) json[part] = std::move(rows);
  }
  return json;
}

}  // namespace

std::vector<std::string> series_names(const Report& report) {
  std::vector<std::string> names;
  const auto* const table = reports::find_table(report, "acceptance");
  for (std::size_t i = 0; table != nullptr && i < table->rows(); ++i) {
    auto name = RowReader(*table, i).text("series");
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

bool has_series(const Report& report, const std::string& name) {
  const auto names = series_names(report);
  return std::ranges::find(names, name) != names.end();
}

std::vector<SequenceFigures> sequences_of(const Report& report, const std::string& name) {
  std::vector<SequenceFigures> sequences;
  for_rows(report, "acceptance_sequences", name, [&](const reports::Table&, const RowReader& row) {
    if (row.integer("depth") == 1)
      sequences.push_back({row.text("sequence"), static_cast<std::size_t>(row.integer("chains")), {}, {}});
    sequences.back().greedy.push_back({row.number("accepted"), row.number("drafted")});
    sequences.back().expected.push_back({row.number("expected_sum"), row.number("expected_rows")});
  });
  return sequences;
}

OrderedJson acceptance_json(const Report& report) {
  const auto names = series_names(report);
  OrderedJson json = names.empty() ? OrderedJson::object() : series_json(report, names.front());
  json["definitions"] = OrderedJson::object();
  if (!names.empty()) {
    for (const std::string table : {"acceptance_metrics", "acceptance_loop"}) {
      for_rows(report, table, names.front(), [&](const reports::Table&, const RowReader& row) {
        json["definitions"][row.text("engine") + ": " + row.text("name")] = row.text("definition");
      });
    }
  }
  OrderedJson all = OrderedJson::array();
  for (const auto& name : names) all.push_back(series_json(report, name));
  json["all_series"] = std::move(all);
  return json;
}

}  // namespace mtpcheck
