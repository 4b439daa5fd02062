#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "harness/cli/verbs.h"
#include "harness/loading/rules.h"
#include "reference/tensor/error.h"
#include "reports/version.h"

namespace {

constexpr int kUsage = static_cast<int>(mtpcheck::Failure::usage);

/// The tool's version, then a line a loader: "loader vllm 0.33.0".
std::string versions() {
  std::string text = "mtpcheck " + std::string(mtpcheck::version());
  for (const auto& rules : mtpcheck::loaders()) {
    text += "\nloader " + std::string(rules.engine) + " " + std::string(rules.version);
  }
  return text;
}

/// The parser would only say that a verb is required.
void require_verb(const CLI::App& app, const std::string& name) {
  std::string names;
  for (const CLI::App* const verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (verb->get_name() == name) return;
    names += (names.empty() ? "" : ", ") + verb->get_name();
  }
  throw mtpcheck::usage_error(name + ": no such verb; there are " + names);
}

int run(int argc, char** argv) {
  CLI::App app("Checks, before serving, that a multi-token-prediction draft head is the one that was trained.",
               "mtpcheck");
  app.set_version_flag("--version", versions, "The tool's version, and whose loaders it knows in which version");
  app.require_subcommand(1);
  mtpcheck::cli::Action action;
  mtpcheck::cli::add_accept(app, action);
  mtpcheck::cli::add_audit(app, action);
  mtpcheck::cli::add_headers(app, action);
  mtpcheck::cli::add_compare(app, action);
  mtpcheck::cli::add_faults(app, action);
  mtpcheck::cli::add_gate(app, action);
  mtpcheck::cli::add_report(app, action);
  mtpcheck::cli::add_run(app, action);
  if (argc > 1 && argv[1][0] != '-') require_verb(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  return action();
}

// Never throws: the exit code holds even where nobody reads the message.
int fail(const char* message, mtpcheck::Failure failure) {
  std::fprintf(stderr, "mtpcheck: %s\n", message);
  return static_cast<int>(failure);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const mtpcheck::Error& error) {
    return fail(error.what(), error.failure());
  } catch (const std::bad_alloc&) {
    return fail("out of memory", mtpcheck::Failure::environment);
  } catch (const std::exception& error) {
    return fail(error.what(), mtpcheck::Failure::input);
  }
}
