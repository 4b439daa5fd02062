// mtpcheck headers CHECKPOINT > headers.json: all that an audit needs of a checkpoint but its data.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/headers_file.h"
#include "harness/cli/output_paths.h"
#include "harness/cli/verbs.h"
#include "reference/tensor/error.h"
#include "reports/atomic_file.h"

namespace mtpcheck::cli {
namespace {

struct HeadersOptions {
  std::string checkpoint;
  std::string out;
};

int write_headers(const HeadersOptions& options) {
  require_apart({{"--out", options.out}}, {{"CHECKPOINT", options.checkpoint}});
  const std::string document = headers_document(open_checkpoint(options.checkpoint));
  if (!options.out.empty()) {
    reports::write_atomically(options.out, document);
    return 0;
  }
  const bool written = std::fwrite(document.data(), 1, document.size(), stdout) == document.size();
  if (!written || std::fflush(stdout) != 0) {
    throw environment_error(fmt::format("standard output: cannot be written: {}", std::strerror(errno)));
  }
  return 0;
}

}  // namespace

void add_headers(CLI::App& app, Action& action) {
  auto* const verb = app.add_subcommand("headers", "Write what an audit needs of a checkpoint, without its data");
  auto options = std::make_shared<HeadersOptions>();
  verb->add_option("CHECKPOINT", options->checkpoint, "Directory with config.json and safetensors files")->required();
  verb->add_option("--out", options->out, "A file instead of standard output");
  verb->callback([options, &action] { action = [options] { return write_headers(*options); }; });
}

}  // namespace mtpcheck::cli
