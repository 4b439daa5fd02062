#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "golden/cases/forward_case.h"
#include "reference/head/known_deviations.h"
#include "reference/head/reference_head.h"
#include "reference/head/stages/stage_inputs.h"

namespace mtpcheck {
namespace {

using golden::KeepingSink;
using golden::Tensors;

class DeviationTest : public ::testing::TestWithParam<std::size_t> {};

/// A case in which every deviation has an effect: a clamp that binds, sinks and a bias that count, a second sequence
/// that begins at position 0.
golden::ForwardCase sensitive_case() {
  auto from = golden::read_forward_case(std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "forward", "packed");
  from.config.swiglu_limit = 0.05;
  auto& layer = from.weights.layers[0];
  for (std::size_t h = 0; h < layer.sink.size(); ++h) layer.sink[h] = 0.5 + 0.123456789 * static_cast<double>(h);
  for (std::size_t e = 0; e < layer.moe->expert_bias.size(); ++e) {
    layer.moe->expert_bias[e] = e % 2 == 0 ? 0.4 : -0.4;
  }
  for (std::size_t i = 0; i < layer.indexer->k_norm_bias.size(); ++i) {
    layer.indexer->k_norm_bias[i] = 0.3 + 0.001 * static_cast<double>(i);
  }
  return from;
}

/// What the case's config makes equal to the definition: no scaled RoPE, no quantised weights, one group of experts,
/// and the epsilons and the base that it has anyway; and a bias whose rounding changes no choice.
bool has_no_effect(std::string_view id) {
  return id == "rope_unscaled" || id == "rope_theta_10000" || id == "yarn_softmax_scale" || id == "ignore_scales" ||
         id == "group_routing" || id == "expert_bias_bf16" || id == "norm_eps_1e-5" || id == "latent_norm_eps_model" ||
         id == "k_norm_eps_1e-6";
}

TEST_P(DeviationTest, ShowsFirstInReplayAtItsStage) {
  const auto& known = known_deviations()[GetParam()];
  static const auto from = sensitive_case();
  const ReferenceOptions exact{.precision = Precision::f64};
  auto options = exact;
  Conventions conventions;
  known.apply(options.deviations, conventions);
  const auto truth = make_reference_head(from.config, from.weights, {}, exact);
  const auto wrong = make_reference_head(from.config, from.weights, conventions, options);
  KeepingSink sink;
  wrong->forward(from.input(), {}, sink);
  const RecordedStages recorded = [&](const StageKey& key) -> std::optional<TensorView> {
    const auto found = sink.stages.find(to_string(key));
    if (found == sink.stages.end()) return std::nullopt;
    return found->second.view(found->first);
  };
  std::optional<Stage> first_differing;
  for (const Stage stage : stages_of(from.config)) {
    for (const auto& [key, value] : truth->replay(stage, from.input(), recorded, {})) {
      if (!(golden::distance(sink.stages.at(to_string(key)), value) <= 1e-9) && !first_differing)
        first_differing = stage;
    }
    for (const auto& [key, value] :
         truth->replay(stage, from.input(), recorded, {.conventions = conventions, .deviations = options.deviations})) {
      EXPECT_LE(golden::distance(sink.stages.at(to_string(key)), value), 1e-12)
          << "replayed with its own deviation: " << to_string(key);
    }
  }
  if (has_no_effect(known.id)) {
    EXPECT_FALSE(first_differing.has_value());
    return;
  }
  ASSERT_TRUE(first_differing.has_value());
  // Which projection is the first square one depends on the sizes.
  const Stage expected = known.id == "transposed_weights" ? Stage::indexer_q : known.first;
  EXPECT_EQ(name(*first_differing), name(expected));
}

INSTANTIATE_TEST_SUITE_P(All, DeviationTest, ::testing::Range(std::size_t{0}, known_deviations().size()),
                         [](const auto& one) {
                           std::string id(known_deviations()[one.param].id);
                           std::ranges::replace(id, '-', '_');
                           return id;
                         });

}  // namespace
}  // namespace mtpcheck
