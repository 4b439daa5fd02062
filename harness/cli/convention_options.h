#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "reference/model/conventions.h"

namespace mtpcheck::cli {

/// What one side of a comparison was told about its conventions on the command line.
struct ConventionOptions {
  std::optional<std::string> preset;
  ConventionSettings settings;
};

/// Adds --preset and one option a convention (--rope, --k-norm-eps, …) to a verb, each with `prefix` in its name
/// ("candidate-" gives --candidate-preset, --candidate-rope, …). Switches are flags: --indexer-fp8,
/// --no-position-zero-mask.
void add_convention_options(CLI::App& verb, ConventionOptions& options, const std::string& prefix = {});

/// The conventions of a side: built-in ← mtpcheck.json ← preset ← options.
ResolvedConventions resolve(const ConventionOptions& options, const ConventionSettings& mtpcheck_json);

}  // namespace mtpcheck::cli
