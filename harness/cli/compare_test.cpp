// The compare verb as a user meets it. MTPCHECK_EAGER_HEAD is torch, or the reference where this build has no LibTorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/checkpoint/safetensors/writer.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/tool.h"
#include "reports/schema/report_file.h"

namespace mtpcheck::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kCheckpoint = MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-bf16";
const std::string kInputs = " --inputs " MTPCHECK_GOLDEN_DIR "/tiny-hy4/traces/passage-00.safetensors";
const std::string kEager = " --candidate " MTPCHECK_EAGER_HEAD;

Json stage_called(const Json& report, const std::string& name) {
  for (const auto& stage : report["stages"]) {
    if (stage["name"] == name) return stage;
  }
  return {};
}

TEST(CompareVerb, TheSameHeadPassesInFloat32AndBfloat16) {
  const ScratchDirectory folder;
  const fs::path report = folder.path() / "out.h5";
  for (const std::string dtype : {"f32", "bf16"}) {
    const auto result = run_tool("compare " + kCheckpoint + kInputs + kEager + " --dtype " + dtype + " --report " +
                                 report.string() + " --json " + (folder.path() / "out.json").string());
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(result.output.find('\033'), std::string::npos);
    const Json summary = read_json(folder.path() / "out.json");
    EXPECT_EQ(summary["verdict"], "pass");
    EXPECT_TRUE(summary["first_divergent_stage"].is_null());
    EXPECT_EQ(summary["stages"].size(), 33u);
    const reports::Report read = reports::read_report(report);
    EXPECT_TRUE(read.pass);
    EXPECT_EQ(read.sides[1].dtype, dtype);
    EXPECT_NE(read.run.command_line.find("--dtype " + dtype), std::string::npos);
  }
}

TEST(CompareVerb, AnotherRopePairingIsNamedWithItsCause) {
  const ScratchDirectory folder;
  const auto result = run_tool("compare " + kCheckpoint + kInputs + kEager + " --candidate-rope interleaved --json " +
                               (folder.path() / "out.json").string());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("first divergent stage q_rope"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("repro: mtpcheck compare"), std::string::npos);
  const Json summary = read_json(folder.path() / "out.json");
  EXPECT_EQ(summary["first_divergent_stage"], "q_rope");
  EXPECT_EQ(summary["first_failing_stage_in_replay"], "q_rope");
  for (const std::string name : {"q_rope", "k_pe", "indexer_q", "indexer_k"}) {
    const Json stage = stage_called(summary, name);
    EXPECT_EQ(stage["verdict"], "fail") << name;
    EXPECT_EQ(stage["likely_cause"], "the candidate matches interleaved RoPE") << name;
  }
  EXPECT_EQ(stage_called(summary, "q")["verdict"], "pass");
  EXPECT_EQ(stage_called(summary, "o_proj")["replay"]["verdict"], "pass");
}

TEST(CompareVerb, PresetsAgainstEachOtherFailWhereTheyDiffer) {
  const ScratchDirectory folder;
  run_tool("compare " + kCheckpoint + kInputs + kEager + " --preset vllm --candidate-preset transformers --json " +
           (folder.path() / "out.json").string());
  const Json summary = read_json(folder.path() / "out.json");
  EXPECT_EQ(summary["verdict"], "fail");
  EXPECT_EQ(summary["first_failing_stage_in_replay"], "q_c");
  EXPECT_EQ(stage_called(summary, "q_c")["likely_cause"], "the candidate matches latent_norm_eps = 1e-06");
  EXPECT_EQ(stage_called(summary, "k_pe")["verdict"], "fail");
  const auto same = run_tool("compare " + kCheckpoint + kInputs + kEager + " --preset transformers --no-replay");
  EXPECT_EQ(same.exit_code, 0) << same.output;
}

TEST(CompareVerb, ADumpOfItsOwnPassesAndMissingTensorsAreNamed) {
  const ScratchDirectory folder;
  const fs::path dump = folder.path() / "dump.safetensors";
  ASSERT_EQ(run_tool("run " + kCheckpoint + kInputs + " --head reference --dtype f32 --out " + dump.string()).exit_code,
            0);
  const std::string compare = "compare " + kCheckpoint + kInputs + " --candidate dump:" + dump.string();
  const auto whole = run_tool(compare);
  EXPECT_EQ(whole.exit_code, 0) << whole.output;
  const fs::path mapping = folder.path() / "map.json";
  std::ofstream(mapping) << R"({"o_proj": null, "gate": null})";
  const auto partial = run_tool(compare + " --mapping " + mapping.string());
  EXPECT_EQ(partial.exit_code, 1);
  EXPECT_NE(partial.output.find("unmatched in the reference: o_proj"), std::string::npos) << partial.output;
  EXPECT_NE(partial.output.find("unmatched in the reference: gate"), std::string::npos);
  EXPECT_EQ(run_tool(compare + " --mapping " + mapping.string() + " --without o_proj,gate").exit_code, 0);
  const auto piped = run_shell("cat " + mapping.string() + " | " MTPCHECK_TOOL " " + compare +
                               " --mapping /dev/stdin --without o_proj,gate");
  EXPECT_EQ(piped.exit_code, 0) << piped.output;
}

TEST(CompareVerb, ADumpOfIntegersIsRefusedWithItsFileAndStage) {
  const ScratchDirectory folder;
  const std::string dump = (folder.path() / "dump.safetensors").string();
  const Tensor tensor = make_tensor(Dtype::i32, {2, 256});
  write_safetensors(dump, {tensor.view("enorm")});
  const auto result = run_tool("compare " + kCheckpoint + " --tokens 2 --candidate dump:" + dump);
  EXPECT_EQ(result.exit_code, 3) << result.output;
  EXPECT_NE(result.output.find(dump + ": enorm is stored as I32"), std::string::npos) << result.output;
}

TEST(CompareVerb, ChainsDraftSteps) {
  const ScratchDirectory folder;
  const auto result = run_tool("compare " + kCheckpoint + " --tokens 20 --seed 3" + kEager + " --steps 3 --json " +
                               (folder.path() / "out.json").string());
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const Json summary = read_json(folder.path() / "out.json");
  EXPECT_EQ(summary["stages"].size(), 99u);
  EXPECT_EQ(stage_called(summary, "step2.logits")["replay"]["verdict"], "pass");
}

TEST(CompareVerb, MalformedInputsGiveOneLineAndNoReport) {
  const ScratchDirectory folder;
  const fs::path report = folder.path() / "out.h5";
  const fs::path broken = folder.path() / "broken";
  const auto fails = [&](const std::string& what) {
    const auto result = run_tool("compare " + broken.string() + kInputs + kEager + " --report " + report.string());
    EXPECT_EQ(result.exit_code, 3) << what;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << what << ": " << result.output;
    EXPECT_FALSE(fs::exists(report)) << what;
    fs::remove_all(broken);
  };
  fails("no checkpoint at all");
  fs::copy(kCheckpoint, broken);
  fs::resize_file(broken / "model-00002-of-00003.safetensors", 5000);
  fails("a truncated shard");
  fs::copy(kCheckpoint, broken);
  fs::remove(broken / "model-00002-of-00003.safetensors");
  fails("a missing shard");
  fs::copy(kCheckpoint, broken);
  std::fstream(broken / "model-00001-of-00003.safetensors").seekp(20) << "garbage";
  fails("a corrupt header");
  fs::copy(kCheckpoint, broken);
  Json config = read_json(broken / "config.json");
  config.erase("num_hidden_layers");
  std::ofstream(broken / "config.json") << config;
  fails("no num_hidden_layers");
}

TEST(CompareVerb, WrongCommandLinesAndPlacesThatCannotBeWritten) {
  EXPECT_EQ(run_tool("compare " + kCheckpoint).exit_code, 2);
  EXPECT_EQ(run_tool("compare " + kCheckpoint + kInputs + " --candidate nothing").exit_code, 2);
  EXPECT_EQ(run_tool("compare " + kCheckpoint + kInputs + " --without q_ropes").exit_code, 2);
  EXPECT_EQ(run_tool("compare " + kCheckpoint + kInputs + " --report /nowhere/at/all.h5").exit_code, 4);
  EXPECT_EQ(run_tool("compare " + kCheckpoint + kInputs + " --candidate dump:/nowhere.safetensors").exit_code, 3);
}

}  // namespace
}  // namespace mtpcheck::cli
