#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "harness/acceptance/study/series.h"
#include "harness/acceptance/trace/trace_file.h"
#include "harness/checkpoint/safetensors/writer.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/tool.h"
#include "reports/record/append.h"
#include "reports/schema/json.h"
#include "reports/schema/report_file.h"

namespace mtpcheck::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

const std::string kTiny = MTPCHECK_GOLDEN_DIR "/tiny-hy4";
const std::string kBf16 = kTiny + "/checkpoint-bf16";
const std::string kNatural = kTiny + "/traces/passage-00.safetensors";
const std::string kGreedy = kTiny + "/generated/greedy/passage-00.safetensors";
const std::string kSampled = kTiny + "/generated/sampled/passage-00.safetensors";

nlohmann::json json_of(const fs::path& path) {
  std::ifstream stream(path);
  return nlohmann::json::parse(stream);
}

// What a trace's file is made of, to be changed and written again.
struct TraceParts {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> positions;
  std::vector<float> hidden;
  std::vector<float> logits;
  std::size_t vocabulary = 0;

  std::size_t tokens() const { return ids.size(); }
};

// The first tokens of a trace.
TraceParts beginning_of(const std::string& path, std::size_t tokens) {
  const TargetTrace trace = read_target_trace(path);
  const auto hidden = to_f32(trace.target_hidden.view());
  TraceParts parts;
  parts.vocabulary = trace.vocabulary;
  parts.ids.assign(trace.input_ids.begin(), trace.input_ids.begin() + static_cast<std::ptrdiff_t>(tokens));
  parts.positions.assign(trace.positions.begin(), trace.positions.begin() + static_cast<std::ptrdiff_t>(tokens));
  parts.hidden.assign(hidden.begin(), hidden.begin() + static_cast<std::ptrdiff_t>(tokens * 256));
  for (std::size_t i = 0; i < tokens; ++i) {
    const LogitsRow row = trace.logits_of(i);
    parts.logits.insert(parts.logits.end(), row.values().begin(), row.values().end());
  }
  return parts;
}

std::string write_whole(const ScratchDirectory& scratch, const std::string& name, const TraceParts& parts) {
  const Tensor ids = tensor_of<std::int64_t>({parts.tokens()}, parts.ids);
  const Tensor positions = tensor_of<std::int64_t>({parts.tokens()}, parts.positions);
  const Tensor hidden = tensor_of<float>({parts.tokens(), 256}, parts.hidden);
  const Tensor logits = tensor_of<float>({parts.tokens(), parts.vocabulary}, parts.logits);
  const auto path = (scratch.path() / name).string();
  write_safetensors(path, {ids.view("input_ids"), positions.view("positions"), hidden.view("target_hidden"),
                           logits.view("target_logits")});
  return path;
}

// The same trace with its N largest log-probabilities alone. `remaining` is added to what is left over.
std::string write_top(const ScratchDirectory& scratch, const std::string& name, const TraceParts& parts, std::size_t n,
                      float remaining = 0) {
  std::vector<std::int64_t> top_ids;
  std::vector<float> values;
  std::vector<float> rest;
  for (std::size_t i = 0; i < parts.tokens(); ++i) {
    const auto row = std::span(parts.logits).subspan(i * parts.vocabulary, parts.vocabulary);
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    std::vector<std::int64_t> order(parts.vocabulary);
    for (std::size_t token = 0; token < order.size(); ++token) order[token] = static_cast<std::int64_t>(token);
    std::ranges::stable_sort(order, [&](auto a, auto b) { return row[a] > row[b]; });
    double mass = 0;
    for (std::size_t rank = 0; rank < n; ++rank) {
      const double value = static_cast<double>(row[order[rank]]) - std::log(sum);
      top_ids.push_back(order[rank]);
      values.push_back(static_cast<float>(value));
      mass += std::exp(value);
    }
    rest.push_back(static_cast<float>(1 - mass) + remaining);
  }
  const Tensor ids = tensor_of<std::int64_t>({parts.tokens()}, parts.ids);
  const Tensor positions = tensor_of<std::int64_t>({parts.tokens()}, parts.positions);
  const Tensor hidden = tensor_of<float>({parts.tokens(), 256}, parts.hidden);
  const Tensor tops = tensor_of<std::int64_t>({parts.tokens(), n}, top_ids);
  const Tensor logs = tensor_of<float>({parts.tokens(), n}, values);
  const Tensor left = tensor_of<float>({parts.tokens()}, rest);
  const auto path = (scratch.path() / name).string();
  write_safetensors(path,
                    {ids.view("input_ids"), positions.view("positions"), hidden.view("target_hidden"),
                     tops.view("top_ids"), logs.view("top_log_probabilities"), left.view("remaining_mass")},
                    {{"vocab_size", std::to_string(parts.vocabulary)}});
  return path;
}

// A sweep of eighteen groups, one report's write each.
std::string long_sweep(const fs::path& report) {
  return "accept " + kBf16 + " --also " + kTiny + "/checkpoint-fp8-block " + kTiny + "/checkpoint-mxfp8 --traces " +
         kNatural + " " + kGreedy + " " + kSampled +
         " --depth 2 --presets transformers,vllm --temperature 1,0.7 --simulate --draft-cost 0.1 "
         "--token-classes " +
         kTiny + "/token-classes.json --report " + report.string();
}

// Starts the tool, and kills it with the signal that nothing can catch as soon as the report is there.
void interrupt_after_the_first_group(const std::string& arguments, const fs::path& report) {
  const std::string command = std::string("exec ") + MTPCHECK_TOOL + " " + arguments + " >/dev/null 2>&1";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 60000 && !fs::exists(report); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(fs::exists(report));
  ASSERT_TRUE(WIFSIGNALED(status)) << "the sweep was over before it could be interrupted";
}

// Marks a series that is done: a figure that no computation would give.
std::string poison_the_first_series(const fs::path& path) {
  auto report = reports::read_report(path);
  for (auto& table : report.tables) {
    if (table.name != "acceptance") continue;
    for (auto& column : table.columns) {
      if (column.name == "greedy_rate") std::get<std::vector<double>>(column.values).front() = 0.123;
    }
  }
  reports::write_report(path, report);
  return series_names(report).front();
}

TEST(AcceptVerb, AnInterruptedSweepGoesOnAndEndsAsAnUninterruptedOne) {
  const ScratchDirectory scratch;
  const fs::path whole = scratch.path() / "whole.h5";
  const fs::path broken = scratch.path() / "broken.h5";
  ASSERT_EQ(run_tool(long_sweep(whole)).exit_code, 0);
  interrupt_after_the_first_group(long_sweep(broken), broken);
  const auto expected = reports::to_json(reports::read_report(whole))["tables"];
  const auto before = series_names(reports::read_report(broken));
  ASSERT_LT(before.size(), series_names(reports::read_report(whole)).size());
  ASSERT_GT(before.size(), 0U);

  const fs::path poisoned = scratch.path() / "poisoned.h5";
  fs::copy_file(broken, poisoned);
  const ToolResult resumed = run_tool(long_sweep(broken));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(reports::to_json(reports::read_report(broken))["tables"], expected);

  // What was done is taken as it is: a figure that was changed in the file comes back, the rest is as it should be.
  const std::string series = poison_the_first_series(poisoned);
  const ToolResult again = run_tool(long_sweep(poisoned));
  ASSERT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.output, Not(HasSubstr(series + " on "))) << "printed again";
  auto tables = reports::to_json(reports::read_report(poisoned))["tables"];
  EXPECT_EQ(tables["acceptance"][0]["greedy_rate"].get<double>(), 0.123);
  tables["acceptance"][0]["greedy_rate"] = expected["acceptance"][0]["greedy_rate"];
  EXPECT_EQ(tables, expected);
}

TEST(AcceptVerb, OnlyTheSameSweepGoesOn) {
  const ScratchDirectory scratch;
  const std::string sweep =
      "accept " + kBf16 + " --traces " + kNatural + " --report " + (scratch.path() / "a.h5").string();
  EXPECT_THAT(run_tool(sweep).output, Not(HasSubstr("taken from")));
  EXPECT_THAT(run_tool(sweep).output, HasSubstr("reference f32: taken from"));
  // More of a sweep takes what is there; another seed, depth, reading of the files or convention does not.
  EXPECT_THAT(run_tool(sweep + " --dtype f32,f64").output,
              AllOf(HasSubstr("reference f32: taken from"), HasSubstr("reference f64 on 1")));
  for (const char* other : {" --seed 7", " --depth 2", " --weights as-loaded", " --rope interleaved",
                            " --sampling greedy", " --draft-cost 0.1", " --restart"}) {
    EXPECT_THAT(run_tool(sweep + other).output, Not(HasSubstr("taken from"))) << other;
  }
}

TEST(AcceptVerb, JsonHasWhatTheDocumentationPromises) {
  const ScratchDirectory scratch;
  const auto file = scratch.path() / "a.json";
  const ToolResult result =
      run_tool("accept " + kBf16 + " --traces " + kSampled + " --depth 3 --simulate --json " + file.string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto json = json_of(file);
  ASSERT_EQ(json["depths"].size(), 3U);
  for (std::size_t k = 0; k < 3; ++k) {
    const auto& depth = json["depths"][k];
    EXPECT_EQ(depth["depth"], k + 1);
    EXPECT_EQ(depth["greedy"]["rate"],
              depth["greedy"]["accepted"].get<double>() / depth["greedy"]["drafted"].get<double>());
    EXPECT_EQ(depth["expected"]["ci95"].size(), 2U);
    EXPECT_EQ(depth["expected"]["sound"], true);
  }
  EXPECT_GT(json["mean_acceptance_length"]["greedy"], 1);
  EXPECT_GT(json["mean_acceptance_length"]["expected"], 1);
  EXPECT_EQ(json["mean_acceptance_length"]["sound"]["greedy"], false);
  EXPECT_EQ(json["mean_acceptance_length"]["sound"]["expected"], true);
  EXPECT_EQ(json["sequences"].size(), 1U);
  EXPECT_FALSE(json["conventions"].empty());
  EXPECT_TRUE(json["definitions"].contains("vllm: mean acceptance length"));
  EXPECT_EQ(json["loop"][0]["verification"], "rejection");
  EXPECT_THAT(result.output, AllOf(HasSubstr("sglang"), HasSubstr("llama.cpp"), HasSubstr("loop, rejection")));
}

TEST(AcceptVerb, SamplingChoosesTheVerification) {
  const ScratchDirectory scratch;
  const auto file = (scratch.path() / "a.json").string();
  const std::string all =
      "accept " + kBf16 + " --depth 2 --simulate --json " + file + " --traces " + kGreedy + " " + kSampled;

  ASSERT_EQ(run_tool(all).exit_code, 0);
  const auto both = json_of(file);
  EXPECT_EQ(both["all_series"][0]["loop"][0]["verification"], "greedy");
  EXPECT_EQ(both["all_series"][1]["loop"][0]["verification"], "rejection");

  const ToolResult greedy_run = run_tool(all + " --sampling greedy");
  ASSERT_EQ(greedy_run.exit_code, 0) << greedy_run.output;
  EXPECT_THAT(greedy_run.output, AllOf(HasSubstr("loop, greedy"), Not(HasSubstr("rejection"))));
  const auto greedy = json_of(file);
  const auto rejection_run = run_tool(all + " --sampling rejection");
  ASSERT_EQ(rejection_run.exit_code, 0);
  EXPECT_THAT(rejection_run.output, AllOf(HasSubstr("loop, rejection"), Not(HasSubstr("greedy   "))));
  const auto rejection = json_of(file);
  for (std::size_t s = 0; s < 2; ++s) {
    for (std::size_t k = 0; k < 2; ++k) {
      const auto& whole = both["all_series"][s]["depths"][k];
      EXPECT_EQ(greedy["all_series"][s]["depths"][k]["greedy"], whole["greedy"]);
      EXPECT_FALSE(greedy["all_series"][s]["depths"][k].contains("expected"));
      EXPECT_EQ(rejection["all_series"][s]["depths"][k]["expected"], whole["expected"]);
      EXPECT_FALSE(rejection["all_series"][s]["depths"][k].contains("greedy"));
    }
  }
  EXPECT_EQ(greedy["all_series"][0]["loop"], both["all_series"][0]["loop"]);
  EXPECT_FALSE(greedy["all_series"][1].contains("loop")) << "no greedy loop along a sampled trace";
  EXPECT_FALSE(rejection["all_series"][0].contains("loop"));
  EXPECT_EQ(rejection["all_series"][1]["loop"], both["all_series"][1]["loop"]);
}

TEST(AcceptVerb, SamplingThatContradictsTheRestIsAUsageError) {
  const std::string accept = "accept " + kBf16 + " --traces ";
  EXPECT_EQ(run_tool(accept + kNatural + " --sampling sometimes").exit_code, 2);
  EXPECT_EQ(run_tool(accept + kNatural + " --sampling greedy --temperature 0.7").exit_code, 2);
  EXPECT_EQ(run_tool(accept + kNatural + " --simulate").exit_code, 2);
  EXPECT_EQ(run_tool(accept + kGreedy + " --simulate --sampling rejection").exit_code, 2);
  EXPECT_EQ(run_tool(accept + kSampled + " --simulate --temperature 0.7").exit_code, 2);
}

// Quantisations, presets, precisions and ways of sampling in one run, each held to the first on the same rows.
TEST(AcceptVerb, SweepsInOneRun) {
  const ScratchDirectory scratch;
  const auto file = scratch.path() / "a.json";
  const ToolResult result =
      run_tool("accept " + kBf16 + " --also " + kTiny + "/checkpoint-fp8-block --traces " + kNatural +
               " --dtype f32,bf16 --presets vllm,transformers --top-k 0,5 --top-p 1,0.9 --token-classes " + kTiny +
               "/token-classes.json --json " + file.string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto all = json_of(file)["all_series"];
  ASSERT_EQ(all.size(), 2U * 2 * 2 * 4);
  EXPECT_FALSE(all[0].contains("paired"));
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i]["paired"][0]["baseline"], all[0]["series"]);
  const auto named = [&](const std::string& name) {
    for (const auto& series : all) {
      if (series["series"] == name) return series;
    }
    ADD_FAILURE() << "no " << name;
    return nlohmann::json();
  };
  const auto wrong = named("reference f32, checkpoint-bf16, preset vllm, top-k 0, top-p 1");
  const auto right = named("reference f32, checkpoint-bf16, preset transformers, top-k 0, top-p 1");
  EXPECT_LT(wrong["depths"][0]["greedy"]["rate"], right["depths"][0]["greedy"]["rate"]);
  std::set<std::string> by;
  for (const auto& group : right["groups"]) by.insert(group["by"]);
  EXPECT_EQ(by, (std::set<std::string>{"position", "token class"}));
}

TEST(AcceptVerb, CheckpointsOfOneNameAreToldApartByTheirFolders) {
  const ScratchDirectory scratch;
  for (const char* folder : {"a", "b"}) {
    fs::create_directories(scratch.path() / folder);
    fs::copy(kTiny + "/checkpoint-split", scratch.path() / folder / "head", fs::copy_options::recursive);
  }
  const auto at = scratch.path().string();
  const ToolResult result = run_tool("accept " + at + "/a/head --also " + at + "/b/head/ --traces " + kNatural);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("f32, a/head on"), HasSubstr("f32, b/head on"),
                                   HasSubstr("greedy +0.00 points [+0.00, +0.00] p 1")));
  EXPECT_EQ(run_tool("accept " + at + "/a/head --also " + at + "/a/head --traces " + kNatural).exit_code, 2);
}

TEST(AcceptVerb, TopNTracesGiveBoundsAroundTheTruth) {
  const ScratchDirectory scratch;
  const auto parts = beginning_of(kNatural, 24);
  const auto whole = write_whole(scratch, "whole.safetensors", parts);
  const auto top = write_top(scratch, "top.safetensors", parts, 3);
  const auto file = scratch.path() / "a.json";
  ASSERT_EQ(run_tool("accept " + kBf16 + " --traces " + whole + " --json " + file.string()).exit_code, 0);
  const double truth = json_of(file)["depths"][0]["expected"]["rate"];
  const ToolResult result = run_tool("accept " + kBf16 + " --traces " + top + " --json " + file.string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr(", between "));
  const auto bounds = json_of(file)["depths"][0]["expected"]["bounds"];
  EXPECT_LT(bounds[0], truth);
  EXPECT_GT(bounds[1], truth);
}

TEST(AcceptVerb, BadTracesExitThreeWithSequenceAndPosition) {
  const ScratchDirectory scratch;
  const TraceParts good = beginning_of(kNatural, 16);
  const auto refused = [&](const std::string& path, const std::string& position) {
    const ToolResult result = run_tool("accept " + kBf16 + " --traces " + kNatural + " " + path);
    EXPECT_EQ(result.exit_code, 3) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr(path), HasSubstr(position)));
  };
  TraceParts nan = good;
  nan.logits[7 * nan.vocabulary + 11] = std::nanf("");
  refused(write_whole(scratch, "nan.safetensors", nan), "target_logits at position 7, token 11 is nan");
  TraceParts token = good;
  token.ids[5] = 288;
  refused(write_whole(scratch, "token.safetensors", token), "input_ids[5] is 288");
  TraceParts narrow = good;
  narrow.vocabulary = 256;
  narrow.logits.resize(narrow.tokens() * 256);
  refused(write_whole(scratch, "narrow.safetensors", narrow), "vocabulary has 256 tokens, the head's 288");
  TraceParts shifted = good;
  for (auto& position : shifted.positions) ++position;
  refused(write_whole(scratch, "shifted.safetensors", shifted), "positions[0] is 1");
  TraceParts gap = good;
  for (std::size_t i = 9; i < gap.tokens(); ++i) ++gap.positions[i];
  refused(write_whole(scratch, "gap.safetensors", gap), "positions[9] is 10 after 8");
  refused(write_top(scratch, "much.safetensors", good, 4, 0.25F), "the probabilities at position 0 sum to");
  refused(write_top(scratch, "all.safetensors", good, 4, -0.0005F), "remain, 1 was expected");
}

// The CUDA heads compute in bf16 alone, which nobody should have to say.
TEST(AcceptVerb, CudaHeadsNeedNoDtype) {
  const ScratchDirectory scratch;
  const auto trace = write_whole(scratch, "short.safetensors", beginning_of(kNatural, 4));
  const ToolResult accepted = run_tool("accept " + kBf16 + " --head cuda-emulated --traces " + trace);
  const ToolResult ran = run_tool("run " + kBf16 + " --head cuda-emulated --inputs " + trace + " --out " +
                                  (scratch.path() / "dump.safetensors").string());
#ifdef MTPCHECK_EMULATED_HEAD
  EXPECT_EQ(accepted.exit_code, 0) << accepted.output;
  EXPECT_THAT(accepted.output, HasSubstr("cuda-emulated bf16 on 1 natural traces, 3 chains"));
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
#else
  EXPECT_EQ(accepted.exit_code, 4) << accepted.output;
  EXPECT_EQ(ran.exit_code, 4) << ran.output;
#endif
}

}  // namespace
}  // namespace mtpcheck::cli
