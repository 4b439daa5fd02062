#include "harness/cli/convention_options.h"

#include <fmt/format.h>

#include <algorithm>

namespace mtpcheck::cli {

void add_convention_options(CLI::App& verb, ConventionOptions& options, const std::string& prefix) {
  const std::string group = prefix.empty() ? "Conventions" : "Conventions of the candidate";
  verb.add_option("--" + prefix + "preset", options.preset, "vllm, transformers or sglang")->group(group);
  for (const auto& key : convention_keys()) {
    std::string name = key;
    std::ranges::replace(name, '_', '-');
    verb.add_option_function<std::string>(
            "--" + prefix + name, [&options, key](const std::string& value) { options.settings[key] = value; },
            fmt::format("{}, see docs/conventions.md", key))
        ->group(group);
  }
}

ResolvedConventions resolve(const ConventionOptions& options, const ConventionSettings& mtpcheck_json) {
  return resolve_conventions(mtpcheck_json, options.preset, options.settings);
}

}  // namespace mtpcheck::cli
