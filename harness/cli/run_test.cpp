#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/checkpoint/safetensors/writer.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/tool.h"
#include "harness/inputs/tensor_file.h"
#include "reference/model/stages.h"

namespace mtpcheck::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

const std::string kTrace = kTiny + "/traces/passage-00.safetensors";

bool only_the_dump(const ScratchDirectory& scratch, std::size_t files) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(scratch.path()), {})) == files;
}

TEST(RunVerb, WritesEveryStageAndDraftsWhatTheTrainedHeadDrafted) {
  const ScratchDirectory scratch;
  const std::string out = (scratch.path() / "dump.safetensors").string();
  const ToolResult result = run_tool("run " + kTiny + "/checkpoint-bf16 --inputs " + kTrace + " --out " + out);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(only_the_dump(scratch, 1));
  const TensorFile dump = open_tensor_file(out);
  EXPECT_EQ(dump.tensors.size(), kStages);
  for (const StageInfo& stage : all_stages()) {
    ASSERT_NE(dump.find(std::string(stage.name)), nullptr) << stage.name;
  }
  EXPECT_EQ(dump.find("q_rope")->shape, (Shape{159, 4, 16}));
  EXPECT_EQ(dump.find("indexer_scores")->shape, (Shape{159, 159}));
  EXPECT_EQ(dump.find("topk_indices")->shape, (Shape{159, 64}));
  EXPECT_EQ(dump.metadata.at("convention.rope"), "half-split (mtpcheck.json)");

  // transformers recorded these when the trace was made.
  const TensorFile trace = open_tensor_file(kTrace);
  const auto drafts = to_i64(*trace.find("draft_tokens"));
  const auto top = to_f64(*trace.find("mtp_top_logit"));
  const auto logits = to_f64(*dump.find("logits"));
  for (std::size_t row = 0; row < 159; ++row) {
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(row * 288);
    const auto largest = std::max_element(first, first + 288);
    EXPECT_EQ(largest - first, drafts[row * 3]) << row;
    EXPECT_NEAR(*largest, top[row * 3], 2e-4) << row;
  }
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

// Every recorded tensor of `dtype` is in the dump under its name, with its shape and within `tolerance` of its largest
// magnitude; infinities and choices are equal.
std::size_t expect_recorded(const TensorFile& dump, const TensorFile& recorded, const std::string& dtype,
                            double tolerance) {
  std::size_t compared = 0;
  for (const auto& [name, theirs] : recorded.tensors) {
    if (!name.starts_with(dtype + ".")) continue;
    const TensorView* const ours = dump.find(name.substr(dtype.size() + 1));
    EXPECT_NE(ours, nullptr) << name;
    if (ours == nullptr) continue;
    EXPECT_EQ(ours->shape, theirs.shape) << name;
    const auto a = to_f64(*ours);
    const auto b = to_f64(theirs);
    const double allowed = theirs.dtype == Dtype::i32 ? 0 : tolerance * largest_of(b);
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (a[i] == b[i]) continue;  // infinities
      EXPECT_LE(std::fabs(a[i] - b[i]), allowed) << name << " element " << i;
    }
    ++compared;
  }
  return compared;
}

TEST(RunVerb, AgreesWithTheRecordedActivationsUnderTheirNames) {
  for (const char* name : {"topk_below_seq", "seq_below_topk", "sinks", "packed"}) {
    const std::string from = MTPCHECK_GOLDEN_DIR "/forward/" + std::string(name);
    const ScratchDirectory scratch;
    fs::copy_file(from + "/config.json", scratch.path() / "config.json");
    fs::copy_file(from + "/weights.safetensors", scratch.path() / "model.safetensors");
    const std::string out = (scratch.path() / "out").string();
    for (const auto& [preset, dialect] : {std::pair("vllm", "vllm"), std::pair("transformers", "hf")}) {
      const TensorFile recorded = open_tensor_file(from + "/activations_" + dialect + ".safetensors");
      for (const auto& [dtype, tolerance] : {std::pair("f32", 2e-6), std::pair("f64", 1e-12)}) {
        const ToolResult result =
            run_tool("run " + scratch.path().string() + " --inputs " + from + "/inputs.safetensors --preset " + preset +
                     " --dtype " + dtype + " --out " + out);
        ASSERT_EQ(result.exit_code, 0) << result.output;
        EXPECT_GT(expect_recorded(open_tensor_file(out), recorded, dtype, tolerance), 4U) << name << " " << dialect;
      }
    }
  }
}

TEST(RunVerb, ACleanCheckpointAsLoadedIsTheOneAsMeant) {
  const ScratchDirectory scratch;
  const auto logits = [&](const std::string& variant, const std::string& weights) {
    const std::string out = (scratch.path() / weights).string();
    const ToolResult result = run_tool("run " + kTiny + "/checkpoint-" + variant +
                                       " --tokens 8 --dtype f64 --weights " + weights + " --out " + out);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return to_f64(*open_tensor_file(out).find("logits"));
  };
  EXPECT_EQ(logits("split", "as-loaded"), logits("split", "as-meant"));
  EXPECT_EQ(logits("mxfp8", "as-loaded"), logits("mxfp8", "as-meant"));
}

TEST(RunVerb, SeveralSequencesHaveTheirOwnTensors) {
  const ScratchDirectory scratch;
  const std::string out = (scratch.path() / "dump.safetensors").string();
  const std::string inputs = (scratch.path() / "inputs.safetensors").string();
  const Tensor ids = tensor_of<std::int64_t>({5}, std::array<std::int64_t, 5>{1, 2, 3, 4, 5});
  const Tensor positions = tensor_of<std::int64_t>({5}, std::array<std::int64_t, 5>{0, 1, 2, 0, 1});
  const Tensor bounds = tensor_of<std::int64_t>({3}, std::array<std::int64_t, 3>{0, 3, 5});
  const Tensor states = make_tensor(Dtype::bf16, {5, 256});
  write_safetensors(inputs, {ids.view("input_ids"), positions.view("positions"), bounds.view("cu_seqlens"),
                             states.view("hidden_states")});
  const ToolResult result = run_tool("run " + kTiny + "/checkpoint-split --inputs " + inputs + " --out " + out);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const TensorFile dump = open_tensor_file(out);
  EXPECT_EQ(dump.find("indexer_scores.seq0")->shape, (Shape{3, 3}));
  EXPECT_EQ(dump.find("indexer_scores.seq1")->shape, (Shape{2, 2}));
  EXPECT_EQ(dump.find("attn_probs.seq1")->shape, (Shape{4, 2, 2}));
  EXPECT_EQ(dump.find("attn_probs"), nullptr);
  EXPECT_EQ(dump.find("logits")->shape, (Shape{5, 288}));
}

TEST(RunVerb, RandomRowsPresetsAndDtypesAreRecorded) {
  const ScratchDirectory scratch;
  const std::string out = (scratch.path() / "dump.safetensors").string();
  const ToolResult result = run_tool("run " + kTiny +
                                     "/checkpoint-mxfp8 --tokens 5 --seed 3 --dtype f64 --preset transformers "
                                     "--latent-norm-eps 1e-4 --out " +
                                     out);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const TensorFile dump = open_tensor_file(out);
  EXPECT_EQ(dump.find("logits")->dtype, Dtype::f64);
  EXPECT_EQ(dump.metadata.at("convention.k_norm_eps"), "rms_norm_eps (preset transformers)");
  EXPECT_EQ(dump.metadata.at("convention.latent_norm_eps"), "0.0001 (option)");
  EXPECT_EQ(dump.metadata.at("inputs"), "5 random tokens, seed 3");
}

TEST(RunVerb, BadInputsLeaveNoFileBehind) {
  const ScratchDirectory scratch;
  const std::string out = (scratch.path() / "dump.safetensors").string();
  const auto fails = [&](const std::string& arguments, int exit_code, const std::string& message) {
    const ToolResult result = run_tool("run " + arguments + " --out " + out);
    EXPECT_EQ(result.exit_code, exit_code) << result.output;
    EXPECT_THAT(result.output, HasSubstr(message));
    EXPECT_EQ(std::ranges::count(result.output, '\n'), 1) << result.output;
    EXPECT_FALSE(fs::exists(out));
  };
  const std::string split = kTiny + "/checkpoint-split";
  fails(split, 2, "either --inputs FILE or --tokens N");
  fails(split + " --tokens 0", 2, "at least one row");
  fails(split + " --tokens 2 --rope neox", 2, "interleaved or half-split");
  fails(split + " --tokens 2 --preset tgi", 2, "vllm, transformers, sglang");
  fails(split + " --tokens 2 --head mlx", 2, "mlx");
  fails(split + " --tokens 2 --dtype f8", 2, "f8");
  fails(split + " --inputs " + kTiny + "/faults.json", 3, "faults.json");
  fails(split + " --inputs " + kTiny + "/absent", 3, "cannot be opened");
  fails(kTiny + "/absent --tokens 2", 3, "no such checkpoint");
  EXPECT_TRUE(only_the_dump(scratch, 0));
  EXPECT_EQ(run_tool("run " + split + " --tokens 2 --out /nonexistent/dump.safetensors").exit_code, 4);
}

// A truncated shard, a missing one, a corrupt header, a config without a dimension: one clear line each, exit 3.
TEST(RunVerb, DamagedCheckpointsAreRefused) {
  const ScratchDirectory scratch;
  const fs::path broken = scratch.path() / "checkpoint";
  const auto copy = [&] {
    fs::remove_all(broken);
    fs::copy(kTiny + "/checkpoint-bf16", broken);
    fs::permissions(broken, fs::perms::owner_all);
    for (const auto& entry : fs::directory_iterator(broken)) fs::permissions(entry.path(), fs::perms::owner_all);
  };
  const auto fails = [&](const std::string& message) {
    const ToolResult result =
        run_tool("run " + broken.string() + " --tokens 2 --out " + (scratch.path() / "dump.safetensors").string());
    EXPECT_EQ(result.exit_code, 3) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("checkpoint/"), HasSubstr(message)));
    EXPECT_EQ(std::ranges::count(result.output, '\n'), 1) << result.output;
  };
  const fs::path shard = broken / "model-00003-of-00003.safetensors";
  copy();
  fs::resize_file(shard, fs::file_size(shard) - 512);
  fails("The shard is 512 bytes short: download it again.");
  copy();
  fs::remove(shard);
  fails("the shard is missing");
  copy();
  {
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('\xff');
  }
  fails("not valid UTF-8");
  copy();
  {
    std::string config;
    std::getline(std::ifstream(broken / "config.json"), config, '\0');
    const std::string key = "\"num_hidden_layers\"";
    config.replace(config.find(key), key.size(), "\"renamed\"");
    std::ofstream(broken / "config.json") << config;
  }
  fails("num_hidden_layers is missing");
  EXPECT_TRUE(only_the_dump(scratch, 1));
}

}  // namespace
}  // namespace mtpcheck::cli
