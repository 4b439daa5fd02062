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
///   acceptance             series × depth: counts, rates, intervals, whether the traces can tell it
///   acceptance_sequences   series × sequence × depth: numerators and denominators
///   acceptance_metrics     series × engine's figure: numerator, denominator, value
///   acceptance_histogram   series × accepted length
///   acceptance_groups      series × position or token class × depth
///   acceptance_paired      series against the first one: difference, interval, p-value
///   acceptance_loop        series × engine's figure of the simulated loop

/// Names a token's class, for figures by class.
using TokenClass = std::function<std::string(std::int64_t token)>;

void append_series(reports::Report& report, const std::string& name, const AcceptanceStudy& study,
                   const TokenClass& token_class);
void append_loop(reports::Report& report, const std::string& name, const AcceptanceCounts& counts);

/// Differences of series `name` to series `baseline`, from the sequences' rows in the report.
void append_paired(reports::Report& report, const std::string& baseline, const std::string& name, std::uint64_t seed);

bool has_series(const reports::Report& report, const std::string& name);
std::vector<SequenceFigures> sequences_of(const reports::Report& report, const std::string& name);

/// The verb's JSON: depths[] {depth, greedy {…}, expected {rate, ci95, …}}, mean_acceptance_length, sequences[],
/// definitions of the first series at the top level, and all of them in series[].
nlohmann::ordered_json acceptance_json(const reports::Report& report);

}  // namespace mtpcheck
