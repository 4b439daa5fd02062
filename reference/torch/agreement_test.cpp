#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "golden/cases/forward_case.h"
#include "reference/head/reference_head.h"
#include "reference/torch/torch_head.h"

namespace mtpcheck {
namespace {

using golden::ForwardCase;

/// A head that no recorded case has: topk_below_seq with something of its config, weights or conventions changed.
struct Variant {
  std::string name;
  std::function<void(ForwardCase&, Conventions&)> change;
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

RopeParameters yarn() {
  RopeParameters rope;
  rope.type = "yarn";
  rope.factor = 4;
  rope.original_max_position_embeddings = 64;
  rope.mscale = 0.7;
  rope.mscale_all_dim = 1;
  return rope;
}

std::vector<Variant> variants() {
  const auto rope = [](const std::string& type, const std::function<void(RopeParameters&)>& set) {
    return [type, set](ForwardCase& from, Conventions&) {
      from.config.rope.type = type;
      from.config.rope.factor = 4;
      from.config.rope.original_max_position_embeddings = 8;
      set(from.config.rope);
    };
  };
  return {
      {"plain", [](ForwardCase&, Conventions&) {}},
      {"linear", rope("linear", [](RopeParameters&) {})},
      {"ntk", rope("ntk", [](RopeParameters&) {})},
      {"dynamic", rope("dynamic", [](RopeParameters&) {})},
      {"llama3", rope("llama3", [](RopeParameters&) {})},
      {"yarn", [](ForwardCase& from, Conventions&) { from.config.rope = yarn(); }},
      {"yarn_in_the_softmax",
       [](ForwardCase& from, Conventions& conventions) {
         from.config.rope = yarn();
         conventions.yarn_softmax_scale = true;
       }},
      {"yarn_by_factor",
       [](ForwardCase& from, Conventions&) {
         from.config.rope = yarn();
         from.config.rope.mscale_all_dim = 0;
         from.config.rope.truncate = false;
       }},
      {"no_gate",
       [](ForwardCase& from, Conventions&) {
         from.config.gate = GateKind::none;
         from.weights.layers[0].linear_gate = {};
       }},
      {"no_sinks",
       [](ForwardCase& from, Conventions&) {
         from.config.learnable_sink = false;
         from.weights.layers[0].sink.clear();
       }},
      {"sinks_of_minus_infinity",
       [](ForwardCase& from, Conventions&) {
         from.weights.layers[0].sink.assign(4, -std::numeric_limits<double>::infinity());
       }},
      {"dense_attention",
       [](ForwardCase& from, Conventions&) {
         from.config.sparse_attention = false;
         from.weights.layers[0].indexer.reset();
       }},
      {"dense_mlp",
       [](ForwardCase& from, Conventions&) {
         from.config.sparse_mlp = false;
         from.config.intermediate_size = from.config.moe_intermediate_size;
         from.weights.layers[0].mlp = from.weights.layers[0].moe->experts[2];
         from.weights.layers[0].moe.reset();
       }},
      {"no_shared_expert",
       [](ForwardCase& from, Conventions&) {
         from.config.n_shared_experts = 0;
         from.weights.layers[0].moe->shared.reset();
       }},
      {"groups",
       [](ForwardCase& from, Conventions& conventions) {
         from.config.n_group = 4;
         from.config.topk_group = 2;
         conventions.group_routing = true;
       }},
      {"weights_not_normalised", [](ForwardCase& from, Conventions&) { from.config.norm_topk_prob = false; }},
      {"no_clamp", [](ForwardCase& from, Conventions&) { from.config.swiglu_limit = 0; }},
      {"pairings_apart", [](ForwardCase&, Conventions& c) { c.indexer_rope = RopePairing::half_split; }},
      {"two_layers",
       [](ForwardCase& from, Conventions&) {
         from.weights.layers.push_back(from.weights.layers[0]);
         from.weights.layers[1].enorm = from.weights.layers[0].hnorm;
         from.config.num_nextn_predict_layers = 2;
       }},
  };
}

class Agreement : public ::testing::TestWithParam<Variant> {};

TEST_P(Agreement, EveryStageOfTheTwoHeadsIsTheSameInFloat64) {
  auto from = golden::read_forward_case(std::string(MTPCHECK_GOLDEN_DIR) + "/forward", "topk_below_seq");
  Conventions conventions;
  GetParam().change(from, conventions);
  ReferenceOptions options;
  options.precision = Precision::f64;
  ReferenceHead reference(from.config, from.weights, conventions, options);
  const auto torch = make_torch_head(from.config, from.weights, conventions, Dtype::f64, 1);
  for (std::size_t layer = 0; layer < from.weights.layers.size(); ++layer) {
    golden::KeepingSink expected;
    golden::KeepingSink found;
    reference.forward(from.input(), {.spec_step_idx = layer}, expected);
    torch->forward(from.input(), {.spec_step_idx = layer}, found);
    EXPECT_GT(expected.stages.size(), 25U);
    EXPECT_EQ(found.stages.size(), expected.stages.size());
    for (const auto& [name, value] : expected.stages) {
      ASSERT_TRUE(found.stages.contains(name)) << name;
      EXPECT_LE(golden::distance(found.stages.at(name), value), 1e-12) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, Agreement, ::testing::ValuesIn(variants()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace mtpcheck
