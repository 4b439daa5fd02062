#include "harness/acceptance/study/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "reports/record/append.h"

namespace mtpcheck {
namespace {

using reports::append_row;
using reports::NamedCell;
using reports::Report;
using reports::RowReader;
using Json = nlohmann::ordered_json;

constexpr const char* kDepths = "acceptance";
constexpr const char* kSequences = "acceptance_sequences";
constexpr const char* kMetrics = "acceptance_metrics";

std::int64_t integer(std::size_t value) { return static_cast<std::int64_t>(value); }
std::int64_t flag(bool value) { return value ? 1 : 0; }

void append_depths(Report& report, const std::string& name, const AcceptanceStudy& study) {
  for (const auto& depth : study.depths) {
    append_row(report, kDepths, "acceptance of a series at a draft depth",
               {{"series", name},
                {"origin", std::string(to_string(study.origin))},
                {"depth", integer(depth.depth)},
                {"accepted", depth.accepted, "drafts"},
                {"drafted", depth.drafted, "drafts"},
                {"greedy_rate", depth.greedy_rate()},
                {"greedy_low", depth.greedy_ci.low},
                {"greedy_high", depth.greedy_ci.high},
                {"greedy_sound", flag(depth.greedy_sound)},
                {"greedy_note", depth.greedy_note},
                {"expected_sum", depth.expected_sum, "drafts"},
                {"expected_rows", depth.expected_rows, "drafts"},
                {"expected_rate", depth.expected_rate()},
                {"expected_low", depth.expected_ci.low},
                {"expected_high", depth.expected_ci.high},
                {"expected_bound_low", depth.expected_rows == 0 ? 0.0 : depth.expected_low / depth.expected_rows},
                {"expected_bound_high", depth.expected_rows == 0 ? 0.0 : depth.expected_high / depth.expected_rows},
                {"expected_sound", flag(depth.expected_sound)},
                {"expected_note", depth.expected_note}});
  }
}

void append_sequences(Report& report, const std::string& name, const AcceptanceStudy& study) {
  for (const auto& sequence : study.sequences) {
    for (std::size_t k = 0; k < sequence.greedy.size(); ++k) {
      append_row(report, kSequences, "one sequence of a series at a draft depth",
                 {{"series", name},
                  {"sequence", sequence.name},
                  {"chains", integer(sequence.chains), "chains"},
                  {"depth", integer(k + 1)},
                  {"accepted", sequence.greedy[k].numerator, "drafts"},
                  {"drafted", sequence.greedy[k].denominator, "drafts"},
                  {"expected_sum", sequence.expected[k].numerator, "drafts"},
                  {"expected_rows", sequence.expected[k].denominator, "drafts"}});
    }
  }
}

void append_metrics(Report& report, const std::string& table, const std::string& name, const std::string& verification,
                    const AcceptanceCounts& counts) {
  for (const auto& metric : engine_metrics(counts)) {
    append_row(report, table, "a figure by an engine's definition",
               {{"series", name},
                {"verification", verification},
                {"engine", metric.engine},
                {"name", metric.name},
                {"definition", metric.definition},
                {"numerator", metric.numerator},
                {"denominator", metric.denominator},
                {"value", metric.value()}});
  }
}

void append_histogram(Report& report, const std::string& name, const AcceptanceStudy& study) {
  const auto greedy = accepted_histogram(study.greedy_counts);
  const auto expected = accepted_histogram(study.expected_counts);
  for (std::size_t k = 0; k < std::min(greedy.size(), expected.size()); ++k) {
    append_row(report, "acceptance_histogram", "steps with exactly so many accepted drafts",
               {{"series", name},
                {"accepted", integer(k)},
                {"greedy", greedy[k], "steps"},
                {"expected", expected[k], "steps"}});
  }
}

struct GroupSums {
  SequenceSums greedy;
  SequenceSums expected;
};

void append_groups(Report& report, const std::string& name, const std::string& by,
                   const std::map<std::pair<std::string, std::size_t>, GroupSums>& groups) {
  const auto rate = [](const SequenceSums& sums) {
    return sums.denominator == 0 ? 0.0 : sums.numerator / sums.denominator;
  };
  for (const auto& [key, sums] : groups) {
    append_row(report, "acceptance_groups", "acceptance of the chains of a group at a draft depth",
               {{"series", name},
                {"by", by},
                {"group", key.first},
                {"depth", integer(key.second + 1)},
                {"drafted", sums.greedy.denominator, "drafts"},
                {"greedy_rate", rate(sums.greedy)},
                {"expected_rate", rate(sums.expected)}});
  }
}

// Positions fall into eight equal ranges, zero-padded so that they sort as they count.
std::string position_group(std::int64_t position, std::int64_t last) {
  const std::int64_t width = last / 8 + 1;
  const std::int64_t first = position / width * width;
  return fmt::format("{:07d}-{:07d}", first, first + width - 1);
}

void append_all_groups(Report& report, const std::string& name, const AcceptanceStudy& study,
                       const TokenClass& token_class) {
  std::map<std::pair<std::string, std::size_t>, GroupSums> by_position;
  std::map<std::pair<std::string, std::size_t>, GroupSums> by_class;
  std::int64_t last = 0;
  for (const auto& row : study.rows) last = std::max(last, row.position);
  for (const auto& row : study.rows) {
    const std::size_t accepted = row.accepted_greedily();
    for (std::size_t k = 0; k < row.depths.size(); ++k) {
      const bool hit = study.origin == TraceOrigin::natural ? row.depths[k].greedy_hit : k < accepted;
      const auto add = [&](GroupSums& sums) {
        sums.greedy.numerator += hit ? 1 : 0;
        sums.greedy.denominator += 1;
        sums.expected.numerator += row.depths[k].reach;
        sums.expected.denominator += 1;
      };
      add(by_position[{position_group(row.position, last), k}]);
      if (token_class) add(by_class[{token_class(row.target_token), k}]);
    }
  }
  append_groups(report, name, "position", by_position);
  append_groups(report, name, "token class", by_class);
}

Json depth_json(const RowReader& row) {
  Json greedy{{"accepted", row.number("accepted")},
              {"drafted", row.number("drafted")},
              {"rate", row.number("greedy_rate")},
              {"ci95", {row.number("greedy_low"), row.number("greedy_high")}},
              {"sound", row.integer("greedy_sound") != 0}};
  if (const auto note = row.text("greedy_note"); !note.empty()) greedy["note"] = note;
  Json expected{{"sum", row.number("expected_sum")},
                {"rows", row.number("expected_rows")},
                {"rate", row.number("expected_rate")},
                {"ci95", {row.number("expected_low"), row.number("expected_high")}},
                {"bounds", {row.number("expected_bound_low"), row.number("expected_bound_high")}},
                {"sound", row.integer("expected_sound") != 0}};
  if (const auto note = row.text("expected_note"); !note.empty()) expected["note"] = note;
  return {{"depth", row.integer("depth")}, {"greedy", greedy}, {"expected", expected}};
}

// Calls visit(row) for the rows of a series in a table.
template <class Visit>
void for_rows(const Report& report, std::string_view table_name, const std::string& series, Visit visit) {
  const auto* const table = reports::find_table(report, table_name);
  if (table == nullptr) return;
  for (std::size_t i = 0; i < table->rows(); ++i) {
    const RowReader row(*table, i);
    if (row.text("series") == series) visit(row);
  }
}

std::vector<std::string> series_names(const Report& report) {
  std::vector<std::string> names;
  const auto* const table = reports::find_table(report, kDepths);
  for (std::size_t i = 0; table != nullptr && i < table->rows(); ++i) {
    auto name = RowReader(*table, i).text("series");
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

Json series_json(const Report& report, const std::string& name) {
  Json json{{"series", name}, {"depths", Json::array()}};
  for_rows(report, kDepths, name, [&](const RowReader& row) { json["depths"].push_back(depth_json(row)); });
  for_rows(report, kMetrics, name, [&](const RowReader& row) {
    if (row.text("engine") == "vllm" && row.text("name") == "mean acceptance length") {
      json["mean_acceptance_length"][row.text("verification")] = row.number("value");
    }
  });
  json["sequences"] = Json::array();
  for_rows(report, kSequences, name, [&](const RowReader& row) {
    if (row.integer("depth") == 1)
      json["sequences"].push_back(
          {{"name", row.text("sequence")}, {"chains", row.integer("chains")}, {"depths", Json::array()}});
    json["sequences"].back()["depths"].push_back({{"depth", row.integer("depth")},
                                                  {"accepted", row.number("accepted")},
                                                  {"drafted", row.number("drafted")},
                                                  {"expected_sum", row.number("expected_sum")}});
  });
  json["metrics"] = Json::array();
  for_rows(report, kMetrics, name, [&](const RowReader& row) {
    json["metrics"].push_back({{"verification", row.text("verification")},
                               {"engine", row.text("engine")},
                               {"name", row.text("name")},
                               {"numerator", row.number("numerator")},
                               {"denominator", row.number("denominator")},
                               {"value", row.number("value")}});
  });
  return json;
}

}  // namespace

void append_series(Report& report, const std::string& name, const AcceptanceStudy& study,
                   const TokenClass& token_class) {
  append_depths(report, name, study);
  append_sequences(report, name, study);
  append_metrics(report, kMetrics, name, "greedy", study.greedy_counts);
  append_metrics(report, kMetrics, name, "expected", study.expected_counts);
  append_histogram(report, name, study);
  append_all_groups(report, name, study, token_class);
}

void append_loop(Report& report, const std::string& name, const AcceptanceCounts& counts) {
  append_metrics(report, "acceptance_loop", name, "loop", counts);
}

bool has_series(const Report& report, const std::string& name) {
  const auto names = series_names(report);
  return std::ranges::find(names, name) != names.end();
}

std::vector<SequenceFigures> sequences_of(const Report& report, const std::string& name) {
  std::vector<SequenceFigures> sequences;
  for_rows(report, kSequences, name, [&](const RowReader& row) {
    if (row.integer("depth") == 1)
      sequences.push_back({row.text("sequence"), static_cast<std::size_t>(row.integer("chains")), {}, {}});
    sequences.back().greedy.push_back({row.number("accepted"), row.number("drafted")});
    sequences.back().expected.push_back({row.number("expected_sum"), row.number("expected_rows")});
  });
  return sequences;
}

void append_paired(Report& report, const std::string& baseline, const std::string& name, std::uint64_t seed) {
  const auto a = sequences_of(report, baseline);
  const auto b = sequences_of(report, name);
  for (const auto& difference : compare_sequences(a, b, seed)) {
    append_row(report, "acceptance_paired", "a series against the first, on the same rows",
               {{"series", name},
                {"baseline", baseline},
                {"depth", integer(difference.depth)},
                {"greedy_difference", difference.greedy},
                {"greedy_low", difference.greedy_ci.low},
                {"greedy_high", difference.greedy_ci.high},
                {"greedy_p", difference.greedy_p},
                {"expected_difference", difference.expected},
                {"expected_low", difference.expected_ci.low},
                {"expected_high", difference.expected_ci.high},
                {"expected_p", difference.expected_p}});
  }
}

Json acceptance_json(const Report& report) {
  const auto names = series_names(report);
  Json json = names.empty() ? Json::object() : series_json(report, names.front());
  json["definitions"] = Json::object();
  if (!names.empty()) {
    for_rows(report, kMetrics, names.front(), [&](const RowReader& row) {
      json["definitions"][row.text("engine") + ": " + row.text("name")] = row.text("definition");
    });
  }
  Json all = Json::array();
  for (const auto& name : names) all.push_back(series_json(report, name));
  json["all_series"] = std::move(all);
  return json;
}

}  // namespace mtpcheck
