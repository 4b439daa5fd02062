// What each fault does to acceptance, measured by transformers (faults.json), against the fault study's own figures.
//
// Reads golden/tiny-hy4, or the folder that the environment variable MTPCHECK_TINY_HY4 names. faults.json is over 40
// passages: on those the effects must agree to half a percentage point; on the fewer of golden/ the difference between
// the passages is allowed on top.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/acceptance/trace/trace_file.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/faults/study/fault_study.h"
#include "harness/faults/study/sightings.h"
#include "harness/heads/make_head.h"
#include "harness/inputs/random_input.h"

namespace mtpcheck {
namespace {

// transformers' name of a fault → the catalogue's.
const std::map<std::string, std::string> kIds{
    {"gate/up swapped (routed experts)", "gate-up-swapped"},
    {"gate/up swapped (routed and shared)", "gate-up-swapped-everywhere"},
    {"fused gate_up chunked on the wrong dim", "packed-chunked-on-columns"},
    {"fused gate_up read as interleaved rows", "gate-up-interleaved"},
    {"one expert zeroed (busiest)", "expert-zeroed"},
    {"one expert zeroed (idlest)", "idle-expert-zeroed"},
    {"expert order rotated by one", "experts-rotated"},
    {"shared expert dropped", "shared-dropped"},
    {"swiglu clamp dropped", "clamp-dropped"},
    {"swiglu clamp applied to the shared expert too", "clamp-on-shared"},
    {"e_score_correction_bias dropped", "bias-ignored"},
    {"e_score_correction_bias also in the weights", "bias-in-weights"},
    {"softmax instead of sigmoid scores", "softmax-router"},
    {"routed_scaling_factor dropped", "scaling-missing"},
    {"norm_topk_prob dropped", "weights-not-normalised"},
    {"enorm/hnorm swapped", "enorm-hnorm-exchanged"},
    {"eh_proj halves swapped", "eh-halves-swapped"},
    {"position-0 mask dropped", "no-position-zero-mask"},
    {"positions all +1", "positions-plus-one"},
    {"hidden state before the final norm", "hidden-before-final-norm"},
    {"hidden state of the previous row", "hidden-of-previous-row"},
    {"token not shifted", "token-not-shifted"},
    {"final_layernorm weight ones", "final-norm-ones"},
    {"lm_head = embed_tokens", "head-is-embedding"},
    {"RoPE interleaved instead of half-split", "rope-interleaved"},
    {"RoPE interleaved in the indexer only", "indexer-rope-interleaved"},
    {"RoPE dropped", "rope-dropped"},
    {"rope_theta 1e6 instead of 1e4", "rope-theta"},
    {"sink dropped", "sink-ignored"},
    {"sink logit 0", "sinks-at-zero"},
    {"output gate dropped", "gate-dropped"},
    {"q_a_proj/kv_a_proj rows swapped", "q-a-kv-a-exchanged"},
    {"latent norms eps 1e-6", "latent-eps-transformers"},
    {"indexer k_norm eps 1e-5", "k-norm-eps"},
    {"indexer weights_proj zero", "index-weights-at-zero"},
    {"indexer k_norm bias dropped", "index-norm-without-bias"},
    {"indexer ReLU dropped", "indexer-without-relu"},
    {"indexer ignored (dense attention)", "dense-attention"},
    {"index_topk 32 instead of 64", "fewer-keys"},
    {"fp8: all expert scales at float32 min", "expert-scales-at-float-min"},
    {"fp8: all expert scales at float32 tiny", "expert-scales-tiny"},
    {"fp8: weight_scale_inv transposed", "scales-transposed"},
    {"fp8: scale ignored (= 1), every tensor", "scales-ignored"},
    {"fp8: scale ignored (= 1), experts only", "expert-scales-ignored"},
    {"fp8: scale inverted", "scales-inverted"},
    {"fp8: experts' scales of gate and up exchanged", "gate-up-scales-exchanged"},
    {"mxfp8: E8M0 bias 128 instead of 127", "e8m0-bias-128"},
    {"mxfp8: scale bytes transposed", "mx-scales-transposed"},
    {"mxfp8: scale ignored (= 1)", "mx-scales-ignored"}};

std::filesystem::path tiny_hy4_folder() {
  const char* const larger = std::getenv("MTPCHECK_TINY_HY4");
  return larger != nullptr ? larger : MTPCHECK_GOLDEN_DIR "/tiny-hy4";
}

std::vector<TargetTrace> natural_traces() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(tiny_hy4_folder() / "traces")) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<TargetTrace> traces;
  traces.reserve(files.size());
  for (const auto& file : files) traces.push_back(read_target_trace(file));
  return traces;
}

AcceptancePoint faultless(const std::string& base, const std::string& dtype, const std::vector<TargetTrace>& traces) {
  const auto opened = open_for_heads(tiny_hy4_folder() / ("checkpoint-" + base));
  const auto conventions = resolve_conventions(opened.mtpcheck_json, std::nullopt, {}).values;
  HeadChoice choice;
  choice.dtype = dtype;
  return acceptance_of(*make_head(choice, opened.config, opened.weights, conventions), traces);
}

// Acceptance with each fault of the recording, by the recording's names.
std::map<std::string, AcceptancePoint> measured(const std::vector<TargetTrace>& traces) {
  std::vector<Fault> faults = fault_catalogue();
  std::erase_if(faults, [](const Fault& fault) {
    return std::ranges::none_of(kIds, [&](const auto& entry) { return entry.second == fault.id; });
  });
  const ScratchDirectory scratch;
  FaultStudy study;
  study.bases = tiny_hy4_folder();
  study.scratch = scratch.path();
  study.target_norm = target_norm_of(study.bases);
  study.rows = [](const HeadConfig& config) { return random_head_input(config, 4, 1); };
  study.traces = traces;
  std::map<std::string, AcceptancePoint> points;
  for (const auto& result : study_faults(study, faults)) {
    for (const auto& [name, id] : kIds) {
      if (id == result.id) points[name] = result.after;
    }
  }
  points["fp8 block (weights only)"] = faultless("fp8-block", "f32", traces);
  points["mxfp8 (weights only)"] = faultless("mxfp8", "f32", traces);
  points["bf16 arithmetic"] = faultless("bf16", "bf16", traces);
  return points;
}

TEST(TinyHy4Faults, HaveTheEffectOnAcceptanceThatTransformersMeasured) {
  const auto traces = natural_traces();
  std::ifstream stream(tiny_hy4_folder() / "faults.json");
  const auto recorded = nlohmann::json::parse(stream);
  const auto points = measured(traces);
  const AcceptancePoint clean = faultless("bf16", "f32", traces);
  const double share = 159.0 * static_cast<double>(traces.size()) / recorded["rows"].get<double>();
  ASSERT_LE(share, 1.0);
  const double between_passages = 4 * std::sqrt((1 - share) / share);
  double worst = 0;
  for (const auto& fault : recorded["faults"]) {
    const std::string name = fault["fault"];
    ASSERT_TRUE(points.contains(name)) << name;
    const auto& point = points.at(name);
    const double greedy = clean.greedy - point.greedy - fault["drop"].get<double>();
    const double expected = clean.expected - point.expected - fault["expected_drop"].get<double>();
    worst = std::max({worst, std::fabs(greedy), std::fabs(expected)});
    EXPECT_LE(std::fabs(greedy), 0.005 + between_passages * fault["drop_std_err"].get<double>()) << name;
    EXPECT_LE(std::fabs(expected), 0.005 + between_passages * fault["expected_drop_std_err"].get<double>()) << name;
  }
  std::printf("%zu faults on %zu passages: effects differ by at most %.3f percentage points\n",
              recorded["faults"].size(), traces.size(), 100 * worst);
}

}  // namespace
}  // namespace mtpcheck
