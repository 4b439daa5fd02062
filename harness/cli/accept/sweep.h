#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/acceptance/study/series.h"
#include "harness/acceptance/study/study.h"
#include "harness/acceptance/trace/target_trace.h"
#include "harness/cli/convention_options.h"
#include "harness/heads/make_head.h"
#include "reference/protocol/distribution.h"

namespace mtpcheck::cli {

/// What `mtpcheck accept` was asked.
struct AcceptOptions {
  std::string checkpoint;
  std::vector<std::string> also;  ///< further checkpoints: other quantisations of the head
  std::vector<std::string> traces;
  std::size_t depth = 1;
  std::string sampling;  ///< "greedy", "rejection", or empty: both
  std::vector<double> temperatures{1.0};
  std::vector<std::size_t> top_k{0};
  std::vector<double> top_p{1.0};
  double min_p = 0;
  std::vector<std::string> heads{"reference"};
  std::vector<std::string> dtypes;  ///< empty: each head's own default
  std::vector<std::string> presets;
  std::string weights = "as-meant";
  std::string loader = "vllm";
  bool loader_given = false;
  std::string token_classes;
  bool simulate = false;
  StepCosts costs;
  std::uint64_t seed = 0;
  std::string report;
  std::string json;
  bool restart = false;
  ConventionOptions conventions;
};

/// Throws Error{usage} for options that contradict one another.
void check(const AcceptOptions& options);

Figures figures_of(const AcceptOptions& options);

/// A head of a sweep: what makes it, and how its series are called.
struct SweptHead {
  HeadChoice choice;
  std::optional<std::string> preset;
  std::string name;
};

/// All checkpoints of the sweep, the first one first.
std::vector<std::string> checkpoints_of(const AcceptOptions& options);

/// The heads that are made of checkpoint `index`: presets × heads × dtypes. Where there are several checkpoints, the
/// names say which, by as many of the last parts of its path as tell it from the others.
std::vector<SweptHead> heads_of(const AcceptOptions& options, std::size_t index);

/// temperature × top-k × top-p.
std::vector<SamplingParameters> samplings_of(const AcceptOptions& options);

/// Traces by origin and temperature: figures of natural, greedy and sampled text are never added up. Each is read and
/// checked; throws Error{input} that names file and position.
using TraceGroup = std::vector<TargetTrace>;
std::vector<TraceGroup> read_traces(const AcceptOptions& options, const HeadConfig& config);

/// Which series of the sweep: the parts of the name that do not vary are left out.
std::string series_name(const AcceptOptions& options, const SweptHead& head, const TraceGroup& traces,
                        const std::vector<TraceGroup>& groups, const SamplingParameters& sampling);

/// How the loop verifies along a trace, if it can: the target must have written it that way, and sampled it with these
/// parameters. Empty where it cannot.
std::string loop_of(const AcceptOptions& options, const TraceGroup& traces, const SamplingParameters& sampling);

}  // namespace mtpcheck::cli
