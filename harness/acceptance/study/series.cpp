#include "harness/acceptance/study/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/record/append.h"

namespace mtpcheck {
namespace {

using reports::append_row;
using reports::NamedCell;
using reports::Report;
using Cells = std::vector<NamedCell>;

std::int64_t integer(std::size_t value) { return static_cast<std::int64_t>(value); }
std::int64_t flag(bool value) { return value ? 1 : 0; }

void add_cells(Cells& row, bool wanted, const Cells& cells) {
  if (wanted) row.insert(row.end(), cells.begin(), cells.end());
}

void append_depths(Report& report, const std::string& name, const AcceptanceStudy& study, Figures figures) {
  for (const auto& depth : study.depths) {
    Cells row{{"series", name}, {"origin", std::string(to_string(study.origin))}, {"depth", integer(depth.depth)}};
    add_cells(row, figures.greedy,
              {{"accepted", depth.accepted, "drafts"},
               {"drafted", depth.drafted, "drafts"},
               {"greedy_rate", depth.greedy_rate()},
               {"greedy_low", depth.greedy_ci.low},
               {"greedy_high", depth.greedy_ci.high},
               {"greedy_sound", flag(depth.greedy_sound)},
               {"greedy_note", depth.greedy_note},
               {"greedy_length", depth.greedy_length, "tokens"}});
    add_cells(row, figures.rejection,
              {{"expected_sum", depth.expected_sum, "drafts"},
               {"expected_rows", depth.expected_rows, "drafts"},
               {"expected_rate", depth.expected_rate()},
               {"expected_low", depth.expected_ci.low},
               {"expected_high", depth.expected_ci.high},
               {"expected_bound_low", depth.expected_rows == 0 ? 0.0 : depth.expected_low / depth.expected_rows},
               {"expected_bound_high", depth.expected_rows == 0 ? 0.0 : depth.expected_high / depth.expected_rows},
               {"expected_sound", flag(depth.expected_sound)},
               {"expected_note", depth.expected_note},
               {"expected_length", depth.expected_length, "tokens"}});
    append_row(report, "acceptance", "acceptance of a series at a draft depth", row);
  }
}

void append_sequences(Report& report, const std::string& name, const AcceptanceStudy& study, Figures figures) {
  for (const auto& sequence : study.sequences) {
    for (std::size_t k = 0; k < sequence.greedy.size(); ++k) {
      Cells row{{"series", name},
                {"sequence", sequence.name},
                {"chains", integer(sequence.chains), "chains"},
                {"depth", integer(k + 1)}};
      add_cells(row, figures.greedy,
                {{"accepted", sequence.greedy[k].numerator, "drafts"},
                 {"drafted", sequence.greedy[k].denominator, "drafts"}});
      add_cells(row, figures.rejection,
                {{"expected_sum", sequence.expected[k].numerator, "drafts"},
                 {"expected_rows", sequence.expected[k].denominator, "drafts"}});
      append_row(report, "acceptance_sequences", "one sequence of a series at a draft depth", row);
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

void append_histogram(Report& report, const std::string& name, const AcceptanceStudy& study, Figures figures) {
  auto greedy = accepted_histogram(study.greedy_counts);
  auto expected = accepted_histogram(study.expected_counts);
  greedy.resize(study.depths.size() + 1, 0.0);
  expected.resize(study.depths.size() + 1, 0.0);
  for (std::size_t k = 0; k < greedy.size(); ++k) {
    Cells row{{"series", name}, {"accepted", integer(k)}};
    add_cells(row, figures.greedy, {{"greedy", greedy[k], "steps"}});
    add_cells(row, figures.rejection, {{"expected", expected[k], "steps"}});
    append_row(report, "acceptance_histogram", "steps with exactly so many accepted drafts", row);
  }
}

struct GroupSums {
  SequenceSums greedy;
  SequenceSums expected;
};

using Groups = std::map<std::pair<std::string, std::size_t>, GroupSums>;  // of name and depth

void append_groups(Report& report, const std::string& name, const std::string& by, const Groups& groups,
                   Figures figures) {
  const auto rate = [](const SequenceSums& sums) {
    return sums.denominator == 0 ? 0.0 : sums.numerator / sums.denominator;
  };
  for (const auto& [key, sums] : groups) {
    Cells row{{"series", name},
              {"by", by},
              {"group", key.first},
              {"depth", integer(key.second + 1)},
              {"drafted", sums.greedy.denominator, "drafts"}};
    add_cells(row, figures.greedy, {{"greedy_rate", rate(sums.greedy)}});
    add_cells(row, figures.rejection, {{"expected_rate", rate(sums.expected)}});
    append_row(report, "acceptance_groups", "acceptance of the chains of a group at a draft depth", row);
  }
}

// Positions fall into eight equal ranges, zero-padded so that they sort as they count.
std::string position_group(std::int64_t position, std::int64_t last) {
  const std::int64_t width = last / 8 + 1;
  const std::int64_t first = position / width * width;
  return fmt::format("{:07d}-{:07d}", first, first + width - 1);
}

void append_all_groups(Report& report, const std::string& name, const AcceptanceStudy& study,
                       const TokenClass& token_class, Figures figures) {
  Groups by_position;
  Groups by_class;
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
  append_groups(report, name, "position", by_position, figures);
  append_groups(report, name, "token class", by_class, figures);
}

}  // namespace

void append_series(Report& report, const std::string& name, const AcceptanceStudy& study, const TokenClass& token_class,
                   Figures figures) {
  append_depths(report, name, study, figures);
  append_sequences(report, name, study, figures);
  if (figures.greedy) append_metrics(report, "acceptance_metrics", name, "greedy", study.greedy_counts);
  if (figures.rejection) append_metrics(report, "acceptance_metrics", name, "expected", study.expected_counts);
  append_histogram(report, name, study, figures);
  append_all_groups(report, name, study, token_class, figures);
}

void append_loop(Report& report, const std::string& name, const std::string& verification,
                 const AcceptanceCounts& counts) {
  append_metrics(report, "acceptance_loop", name, verification, counts);
}

void append_paired(Report& report, const std::string& baseline, const std::string& name, std::uint64_t seed,
                   Figures figures) {
  const auto a = sequences_of(report, baseline);
  const auto b = sequences_of(report, name);
  for (const auto& difference : compare_sequences(a, b, seed)) {
    Cells row{{"series", name}, {"baseline", baseline}, {"depth", integer(difference.depth)}};
    add_cells(row, figures.greedy,
              {{"greedy_difference", difference.greedy},
               {"greedy_low", difference.greedy_ci.low},
               {"greedy_high", difference.greedy_ci.high},
               {"greedy_p", difference.greedy_p}});
    add_cells(row, figures.rejection,
              {{"expected_difference", difference.expected},
               {"expected_low", difference.expected_ci.low},
               {"expected_high", difference.expected_ci.high},
               {"expected_p", difference.expected_p}});
    append_row(report, "acceptance_paired", "a series against the first, on the same rows", row);
  }
}

void append_speedup(Report& report, const std::string& name, const AcceptanceStudy& study, StepCosts costs,
                    Figures figures) {
  bool greedy_sound = true;  // up to this depth
  bool expected_sound = true;
  for (const auto& depth : study.depths) {
    greedy_sound = greedy_sound && depth.greedy_sound;
    expected_sound = expected_sound && depth.expected_sound;
    const auto speedup = [&](double length) {
      return expected_speedup(length, depth.depth, costs.draft, costs.verify);
    };
    Cells row{{"series", name},
              {"depth", integer(depth.depth)},
              {"draft_cost", costs.draft, "decode steps"},
              {"verify_cost", costs.verify, "decode steps"}};
    add_cells(row, figures.greedy, {{"greedy", speedup(depth.greedy_length)}, {"greedy_sound", flag(greedy_sound)}});
    add_cells(row, figures.rejection,
              {{"expected", speedup(depth.expected_length)}, {"expected_sound", flag(expected_sound)}});
    append_row(report, "acceptance_speedup", "tokens a second relative to plain decoding, by drafts a step", row);
  }
}

}  // namespace mtpcheck
