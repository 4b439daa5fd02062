#include "harness/loading/audit/digests.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "harness/checkpoint/bounded_json.h"
#include "reference/tensor/error.h"

namespace mtpcheck {

namespace {

constexpr std::string_view kMoment = "return of load_weights";

Finding differing(std::string id, const std::string& name, std::string found, std::string expected) {
  return {std::move(id), Severity::error, Cause::loader, name, std::move(found), std::move(expected), ""};
}

}  // namespace

EngineDigests read_digests(const std::filesystem::path& path) {
  const auto json = read_bounded_json(path);
  EngineDigests digests;
  try {
    const auto moment = json.at("moment").get<std::string>();
    if (moment != kMoment) {
      throw input_error(fmt::format(
          "{}: the digests were taken at \"{}\", not when load_weights returned: the engine rearranges its parameters "
          "after that, and they cannot be compared. Capture them at \"{}\".",
          path.string(), moment, kMoment));
    }
    for (const auto& [name, entry] : json.at("params").items()) {
      digests.parameters[name] = {entry.at("dtype").get<std::string>(),
                                  entry.at("shape").get<std::vector<std::size_t>>(),
                                  entry.at("sha256").get<std::string>()};
    }
  } catch (const nlohmann::json::exception& error) {
    throw input_error(
        fmt::format("{}: not a file of digests: {}. It needs moment, and params with dtype, shape and "
                    "sha256 of each.",
                    path.string(), reason_of(error)));
  }
  return digests;
}

std::vector<Finding> compare_digests(const Audit& audit, const std::vector<std::string>& predicted,
                                     const EngineDigests& running) {
  std::vector<Finding> findings;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < audit.plan->parameters.size(); ++i) {
    const auto& parameter = audit.plan->parameters[i];
    const auto found = running.parameters.find(parameter.name);
    if (found == running.parameters.end()) {
      findings.push_back(differing("digest-missing", parameter.name, "the running engine does not have it",
                                   fmt::format("{} {}", torch_name(parameter.dtype), to_string(parameter.shape))));
      continue;
    }
    seen.insert(parameter.name);
    const auto& held = found->second;
    if (held.dtype != torch_name(parameter.dtype) || held.shape != parameter.shape) {
      findings.push_back(differing("digest-shape", parameter.name,
                                   fmt::format("{} {}", held.dtype, to_string(held.shape)),
                                   fmt::format("{} {}", torch_name(parameter.dtype), to_string(parameter.shape))));
    } else if (i < predicted.size() && !predicted[i].empty() && held.sha256 != predicted[i]) {
      const bool known = audit.coverage[i].complete();
      findings.push_back(
          differing("digest-differs", parameter.name, "sha256 " + held.sha256, "sha256 " + predicted[i]));
      if (!known) {
        // What was never written is whatever memory held: only a complete parameter has one right digest.
        findings.back().severity = Severity::warning;
        findings.back().found += fmt::format(" (of {} elements {} were never written)", audit.coverage[i].elements,
                                             audit.coverage[i].elements - audit.coverage[i].written);
      }
    }
  }
  for (const auto& [name, held] : running.parameters) {
    if (seen.contains(name)) continue;
    findings.push_back(differing(
        "digest-missing", name, fmt::format("only the running engine has it: {} {}", held.dtype, to_string(held.shape)),
        "a parameter that the prediction knows"));
  }
  return findings;
}

}  // namespace mtpcheck
