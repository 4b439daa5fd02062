#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace mtpcheck::cli {

/// What a parsed command line will do; returns the exit code: 0 the check holds, 1 it does not.
using Action = std::function<int()>;

// Each verb adds its subcommand and options to `app` and, when it is the one that was given, sets `action`. One file a
// verb. An exception of type Error becomes its exit code in main.
void add_accept(CLI::App& app, Action& action);
void add_audit(CLI::App& app, Action& action);
void add_headers(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_faults(CLI::App& app, Action& action);
void add_gate(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);

}  // namespace mtpcheck::cli
