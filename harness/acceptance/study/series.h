#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/acceptance/statistics/engine_metrics.h"
#include "harness/acceptance/study/study.h"
#include "reports/record/report.h"

namespace mtpcheck {

/// A series is one study in a report, under a name such as "reference f32, preset vllm, temperature 0.7". Its figures
/// go into the report's tables, one row a depth, sequence, metric or group, so that a sweep is a longer table and an
/// interrupted one can be continued:
///
///   acceptance             series × depth: counts, rates, intervals, whether the traces can tell it, and the mean
///                          acceptance length of a drafter that stops at this depth
///   acceptance_sequences   series × sequence × depth: numerators and denominators
///   acceptance_metrics     series × engine's figure: numerator, denominator, value
///   acceptance_histogram   series × accepted length
///   acceptance_groups      series × position or token class × depth
///   acceptance_paired      series against the first one on the same rows: difference, interval, p-value
///   acceptance_speedup     series × depth at a cost ratio
///   acceptance_loop        series × engine's figure of the simulated loop

/// Names a token's class, for figures by class.
using TokenClass = std::function<std::string(std::int64_t token)>;

/// Which verification's figures are reported; the tables of a report have the columns of these only.
struct Figures {
  bool greedy = true;     ///< by the target's first choice
  bool rejection = true;  ///< by rejection sampling
};

void append_series(reports::Report& report, const std::string& name, const AcceptanceStudy& study,
                   const TokenClass& token_class, Figures figures = {});

/// verification  of the loop: "greedy" or "rejection"
void append_loop(reports::Report& report, const std::string& name, const std::string& verification,
                 const AcceptanceCounts& counts);

/// Differences of series `name` to series `baseline`, from the sequences' rows in the report.
void append_paired(reports::Report& report, const std::string& baseline, const std::string& name, std::uint64_t seed,
                   Figures figures = {});

/// What one draft step and one verification cost, in plain decode steps.
struct StepCosts {
  double draft = 0;
  double verify = 1;
};

/// Expected speed-up of a drafter that stops at depth 1, 2, …
void append_speedup(reports::Report& report, const std::string& name, const AcceptanceStudy& study, StepCosts costs,
                    Figures figures = {});

std::vector<std::string> series_names(const reports::Report& report);
bool has_series(const reports::Report& report, const std::string& name);
std::vector<SequenceFigures> sequences_of(const reports::Report& report, const std::string& name);

/// The verb's JSON: series, depths[] {depth, greedy {…}, expected {rate, ci95, …}}, mean_acceptance_length,
/// sequences[], metrics[], groups[], and what there is of loop[], paired[] and speedup[], of the first series at the
/// top level and of every one in all_series[]; definitions.
nlohmann::ordered_json acceptance_json(const reports::Report& report);

}  // namespace mtpcheck
