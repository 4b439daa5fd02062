#include "harness/cli/accept/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "harness/acceptance/trace/trace_file.h"
#include "harness/cli/output_paths.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cli {
namespace {

// The last `parts` parts of a path, without a slash at its end.
std::string tail(const std::string& path, std::size_t parts) {
  std::filesystem::path rest = std::filesystem::path(path).lexically_normal();
  if (!rest.has_filename()) rest = rest.parent_path();
  std::filesystem::path name;
  for (std::size_t i = 0; i < parts && rest.has_filename(); ++i) {
    name = name.empty() ? rest.filename() : rest.filename() / name;
    rest = rest.parent_path();
  }
  return name.string();
}

std::string name_among(const std::vector<std::string>& checkpoints, std::size_t index) {
  constexpr std::size_t kDeepest = 8;
  for (std::size_t parts = 1; parts < kDeepest; ++parts) {
    std::string name = tail(checkpoints[index], parts);
    if (std::ranges::count_if(checkpoints, [&](const auto& other) { return tail(other, parts) == name; }) == 1)
      return name;
  }
  throw usage_error(fmt::format("{}: the same checkpoint twice", checkpoints[index]));
}

// Twice the same would be one series, computed or counted twice.
void require_distinct(const std::string& option, const std::vector<std::string>& values) {
  for (auto value = values.begin(); value != values.end(); ++value) {
    if (std::find(values.begin(), value, *value) == value) continue;
    throw usage_error(fmt::format("{}: '{}' is there twice, once was expected", option, *value));
  }
}

void require_distinct_files(const std::string& option, const std::vector<std::string>& paths) {
  for (auto path = paths.begin(); path != paths.end(); ++path) {
    for (auto other = paths.begin(); other != path; ++other) {
      if (!same_file(*path, *other)) continue;
      throw usage_error(fmt::format("{}: {} and {} are the same, each was expected once", option, *other, *path));
    }
  }
}

bool plain(const SamplingParameters& sampling) {
  return sampling.top_k == 0 && sampling.top_p == 1 && sampling.min_p == 0;
}

}  // namespace

void check(const AcceptOptions& options) {
  if (options.loader_given && options.weights != "as-loaded") throw usage_error("--loader: needs --weights as-loaded");
  require_distinct_files("--traces", options.traces);
  require_distinct_files("CHECKPOINT and --also", checkpoints_of(options));
  require_distinct("--presets", options.presets);
  require_distinct("--head", options.heads);
  require_distinct("--dtype", options.dtypes);
  for (const auto& preset : options.presets) preset_settings(preset);  // throws for a name that is none
  if (options.costs.draft == 0 && options.costs.verify == 0) {
    throw usage_error("--draft-cost 0 --verify-cost 0: a step that costs nothing has no speed-up");
  }
  const auto samplings = samplings_of(options);
  if (options.sampling == "greedy" &&
      (samplings.size() > 1 || !plain(samplings.front()) || samplings.front().temperature != 1)) {
    throw usage_error(
        "--sampling greedy verifies by the target's first choice, which no --temperature, --top-k, --top-p or --min-p "
        "changes: leave them out");
  }
}

Figures figures_of(const AcceptOptions& options) {
  return {.greedy = options.sampling != "rejection", .rejection = options.sampling != "greedy"};
}

std::vector<std::string> checkpoints_of(const AcceptOptions& options) {
  std::vector<std::string> checkpoints{options.checkpoint};
  checkpoints.insert(checkpoints.end(), options.also.begin(), options.also.end());
  return checkpoints;
}

std::vector<SweptHead> heads_of(const AcceptOptions& options, std::size_t index) {
  const auto checkpoints = checkpoints_of(options);
  std::vector<std::optional<std::string>> presets(options.presets.begin(), options.presets.end());
  if (presets.empty()) presets.push_back(options.conventions.preset);
  std::vector<SweptHead> swept;
  for (const auto& preset : presets) {
    for (const auto& head : options.heads) {
      const auto dtypes = options.dtypes.empty() ? std::vector<std::string>{default_dtype(head)} : options.dtypes;
      for (const auto& dtype : dtypes) {
        SweptHead one;
        one.preset = preset;
        one.name = fmt::format("{} {}", head, dtype);
        one.choice.head = head;
        one.choice.dtype = dtype;
        if (preset) one.choice.rounding_preset = *preset;
        if (checkpoints.size() > 1) one.name += ", " + name_among(checkpoints, index);
        if (preset) one.name += ", preset " + *preset;
        swept.push_back(std::move(one));
      }
    }
  }
  return swept;
}

std::vector<SamplingParameters> samplings_of(const AcceptOptions& options) {
  std::vector<SamplingParameters> samplings;
  for (const double temperature : options.temperatures) {
    for (const std::size_t top_k : options.top_k) {
      for (const double top_p : options.top_p) {
        samplings.push_back({.temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = options.min_p});
      }
    }
  }
  return samplings;
}

std::vector<TraceGroup> read_traces(const AcceptOptions& options, const HeadConfig& config) {
  std::vector<TraceGroup> groups;
  for (const auto& path : options.traces) {
    TargetTrace trace = read_target_trace(path);
    check_trace(trace, config.hidden_size, config.vocab_size);
    const auto same = std::ranges::find_if(groups, [&](const auto& group) {
      return group.front().origin == trace.origin && group.front().temperature == trace.temperature;
    });
    if (same == groups.end()) {
      groups.emplace_back().push_back(std::move(trace));
    } else {
      same->push_back(std::move(trace));
    }
  }
  return groups;
}

std::string series_name(const AcceptOptions& options, const SweptHead& head, const TraceGroup& traces,
                        const std::vector<TraceGroup>& groups, const SamplingParameters& sampling) {
  const TargetTrace& trace = traces.front();
  const auto of_this_origin =
      std::ranges::count_if(groups, [&](const auto& group) { return group.front().origin == trace.origin; });
  std::string name = head.name;
  if (groups.size() > 1) name += fmt::format(", {} traces", to_string(trace.origin));
  if (of_this_origin > 1) name += fmt::format(" of temperature {}", trace.temperature);
  if (options.temperatures.size() > 1 || sampling.temperature != 1)
    name += fmt::format(", temperature {}", sampling.temperature);
  if (options.top_k.size() > 1 || sampling.top_k != 0) name += fmt::format(", top-k {}", sampling.top_k);
  if (options.top_p.size() > 1 || sampling.top_p < 1) name += fmt::format(", top-p {}", sampling.top_p);
  if (sampling.min_p > 0) name += fmt::format(", min-p {}", sampling.min_p);
  return name;
}

std::string loop_of(const AcceptOptions& options, const TraceGroup& traces, const SamplingParameters& sampling) {
  if (!options.simulate || traces.front().top_n > 0) return {};
  const Figures figures = figures_of(options);
  switch (traces.front().origin) {
    case TraceOrigin::greedy:
      return figures.greedy ? "greedy" : "";
    case TraceOrigin::sampled:
      return figures.rejection && plain(sampling) && sampling.temperature == traces.front().temperature ? "rejection"
                                                                                                        : "";
    case TraceOrigin::natural:
      break;
  }
  return {};
}

}  // namespace mtpcheck::cli
