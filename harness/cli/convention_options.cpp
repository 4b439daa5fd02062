#include "harness/cli/convention_options.h"

#include <fmt/format.h>

#include <algorithm>

namespace mtpcheck::cli {

namespace {

bool is_switch(const std::string& key) {
  const std::string value = preset_settings("vllm").at(key);
  return value == "true" || value == "false";
}

}  // namespace

void add_convention_options(CLI::App& verb, ConventionOptions& options, const std::string& prefix) {
  const std::string group = prefix.empty() ? "Conventions" : "Conventions of the candidate";
  verb.add_option("--" + prefix + "preset", options.preset, "vllm, transformers or sglang")->group(group);
  for (const auto& key : convention_keys()) {
    std::string name = prefix + key;
    std::ranges::replace(name, '_', '-');
    const std::string help = fmt::format("{}, see docs/conventions.md", key);
    if (is_switch(key)) {
      verb.add_flag_callback(
              "--" + name, [&options, key] { options.settings[key] = "true"; }, help)
          ->group(group);
      verb.add_flag_callback(
              "--no-" + name, [&options, key] { options.settings[key] = "false"; }, "the contrary")
          ->group(group);
      continue;
    }
    verb.add_option_function<std::string>(
            "--" + name, [&options, key](const std::string& value) { options.settings[key] = value; }, help)
        ->group(group);
  }
}

ResolvedConventions resolve(const ConventionOptions& options, const ConventionSettings& mtpcheck_json) {
  return resolve_conventions(mtpcheck_json, options.preset, options.settings);
}

}  // namespace mtpcheck::cli
