// mtpcheck run CHECKPOINT --inputs FILE --head NAME --out DUMP.safetensors: one head, every stage to a file.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "harness/checkpoint/safetensors/writer.h"
#include "harness/cli/convention_options.h"
#include "harness/cli/number_checks.h"
#include "harness/cli/output_paths.h"
#include "harness/cli/verbs.h"
#include "harness/heads/make_head.h"
#include "harness/heads/opened_checkpoint.h"
#include "harness/inputs/input_file.h"
#include "harness/inputs/random_input.h"
#include "reference/tensor/error.h"
#include "reports/version.h"

namespace mtpcheck::cli {
namespace {

struct RunOptions {
  std::string checkpoint;
  std::string inputs;
  std::string prefix;
  std::optional<std::size_t> tokens;
  std::uint64_t seed = 0;
  std::size_t mtp_layer = 0;
  std::string head = "reference";
  std::string dtype;  // empty: the head's default
  std::string weights = "as-meant";
  std::string loader = "vllm";
  ConventionOptions conventions;
  std::string out;
};

// Stages go to the disk as they come.
class WritingSink : public StageSink {
 public:
  explicit WritingSink(SafetensorsWriter& writer) : writer_(writer) {}

  bool wants(Stage) const override { return true; }

  void record(const StageKey& key, const TensorView& value) override {
    TensorView named = value;
    named.name = to_string(key);
    writer_.add(named);
    ++written_;
  }

  std::size_t written() const { return written_; }

 private:
  SafetensorsWriter& writer_;
  std::size_t written_ = 0;
};

HeadInput read_input(const RunOptions& options, const HeadConfig& config) {
  if (options.inputs.empty() == !options.tokens) {
    throw usage_error("either --inputs FILE or --tokens N: one of the two is needed");
  }
  if (options.tokens) return random_head_input(config, *options.tokens, options.seed);
  return read_head_input(options.inputs, config, options.prefix);
}

std::map<std::string, std::string> metadata_of(const RunOptions& options, const OpenedCheckpoint& opened,
                                               const ResolvedConventions& conventions, const std::string& head) {
  std::map<std::string, std::string> metadata{
      {"tool", fmt::format("mtpcheck {}", version())},
      {"head", head},
      {"weights", options.weights},
      {"checkpoint", opened.checkpoint.path.string()},
      {"checkpoint_identity", identity_of(opened.checkpoint)},
      {"inputs", options.tokens ? fmt::format("{} random tokens, seed {}", *options.tokens, options.seed)
                                : options.inputs + (options.prefix.empty() ? "" : " " + options.prefix)}};
  for (const auto& origin : conventions.origins) {
    metadata.emplace("convention." + origin.key, fmt::format("{} ({})", origin.value, origin.source));
  }
  return metadata;
}

int run_head(const RunOptions& options) {
  require_apart({{"--out", options.out}}, {{"CHECKPOINT", options.checkpoint}, {"--inputs", options.inputs}});
  WeightsChoice weights;
  weights.as_loaded = options.weights == "as-loaded";
  weights.loader = options.loader;
  const OpenedCheckpoint opened = open_for_heads(options.checkpoint, weights);
  const ResolvedConventions conventions = resolve(options.conventions, opened.mtpcheck_json);
  const HeadInput input = read_input(options, opened.config);
  HeadChoice choice;
  choice.head = options.head;
  choice.dtype = options.dtype.empty() ? default_dtype(options.head) : options.dtype;
  if (options.conventions.preset) choice.rounding_preset = *options.conventions.preset;
  const auto head = make_head(choice, opened.config, opened.weights, conventions.values);

  SafetensorsWriter writer(options.out, std::size_t{4096} * (1 + input.sequences()));
  WritingSink sink(writer);
  head->forward(input, {.step = 0, .spec_step_idx = options.mtp_layer, .forced = nullptr}, sink);
  writer.finish(metadata_of(options, opened, conventions, head->name()));
  fmt::print("{}: {} tensors of {} rows in {} sequence{}, {}\n", options.out, sink.written(), input.tokens(),
             input.sequences(), input.sequences() == 1 ? "" : "s", head->name());
  return 0;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto* const verb = app.add_subcommand("run", "Run one head and write every stage to a safetensors file");
  auto options = std::make_shared<RunOptions>();
  verb->add_option("CHECKPOINT", options->checkpoint, "Directory with config.json and safetensors files")->required();
  verb->add_option("--inputs", options->inputs, "Rows, or a target's trace: safetensors or HDF5");
  verb->add_option("--input-prefix", options->prefix, "Of the tensors' names in the inputs, e.g. step1.");
  verb->add_option("--tokens", options->tokens, "So many random rows instead")->check(not_negative);
  verb->add_option("--seed", options->seed, "Of the random rows")->check(not_negative)->capture_default_str();
  verb->add_option("--mtp-layer", options->mtp_layer, "Which MTP layer, from 0")
      ->check(not_negative)
      ->capture_default_str();
  verb->add_option("--head", options->head, "reference, torch, cuda or cuda-emulated")->capture_default_str();
  verb->add_option("--dtype", options->dtype, "f64, f32, bf16 or f16. Default: f32, of the CUDA heads bf16");
  verb->add_option("--weights", options->weights, "as-meant by the files, or as-loaded by an engine's loader")
      ->check(CLI::IsMember({"as-meant", "as-loaded"}))
      ->capture_default_str();
  verb->add_option("--loader", options->loader, "Whose loader, with --weights as-loaded")->capture_default_str();
  verb->add_option("--out", options->out, "The safetensors file to write")->required();
  add_convention_options(*verb, options->conventions);
  verb->callback([options, &action] { action = [options] { return run_head(*options); }; });
}

}  // namespace mtpcheck::cli
