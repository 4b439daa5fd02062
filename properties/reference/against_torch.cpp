// Two heads that share no code but the interface agree on every stage of any head, in float64.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <memory>
#include <string>

#include "properties/reference/random_head.h"
#include "reference/head/reference_head.h"
#include "reference/torch/torch_head.h"

namespace mtpcheck::properties {
namespace {

RopeParameters any_rope() {
  RopeParameters rope;
  rope.type =
      *rc::gen::element(std::string("default"), std::string("linear"), std::string("yarn"), std::string("llama3"));
  rope.theta = *rc::gen::element(1e4, 1e7);
  rope.factor = *rc::gen::element(2.0, 8.0, 40.0);
  rope.original_max_position_embeddings = 1024;
  rope.mscale = *rc::gen::element(1.0, 0.7);
  rope.mscale_all_dim = *rc::gen::element(0.0, 1.0);
  rope.truncate = *rc::gen::arbitrary<bool>();
  return rope;
}

Conventions any_conventions() {
  Conventions conventions;
  const auto pairing = [] { return *rc::gen::element(RopePairing::interleaved, RopePairing::half_split); };
  conventions.rope = pairing();
  conventions.indexer_rope = pairing();
  if (*rc::gen::arbitrary<bool>()) conventions.latent_norm_eps = 1e-3;
  if (*rc::gen::arbitrary<bool>()) conventions.k_norm_eps = std::nullopt;
  conventions.group_routing = *rc::gen::arbitrary<bool>();
  conventions.position_zero_mask = *rc::gen::arbitrary<bool>();
  conventions.yarn_softmax_scale = *rc::gen::arbitrary<bool>();
  return conventions;
}

RC_GTEST_PROP(ReferenceAgainstTorch, EveryStageOfAnyHead, ()) {
  auto config = any_config();
  config.rope = any_rope();
  config.n_group = *rc::gen::element<std::size_t>(1, 2);
  config.topk_group = 1;
  config.n_routed_experts = 4 * config.n_group;
  config.num_experts_per_tok = 1 + static_cast<std::size_t>(*rc::gen::inRange(0, 4));
  const auto conventions = any_conventions();
  const auto weights = random_head(config, *rc::gen::arbitrary<std::uint32_t>()).weights();
  const auto input = random_input(config, {static_cast<std::size_t>(*rc::gen::inRange(1, 12)), 3},
                                  *rc::gen::arbitrary<std::uint32_t>());
  Recording ours;
  Recording theirs;
  make_reference_head(config, weights, conventions, {.precision = Precision::f64})->forward(input, {}, ours);
  make_torch_head(config, weights, conventions, Dtype::f64, 1)->forward(input, {}, theirs);
  RC_ASSERT(ours.all.size() == theirs.all.size());
  for (const auto& [key, value] : ours.all) {
    RC_LOG() << to_string(key) << " of a head with rope type " << config.rope.type << '\n';
    const auto& other = theirs.at(key.stage, key.sequence.value_or(0));
    RC_ASSERT(value.shape == other.shape);
    const double limit = info(key.stage).kind == StageKind::values ? 1e-11 : 0;
    RC_ASSERT(distance(to_f64(value.view()), to_f64(other.view())) <= limit);
  }
}

}  // namespace
}  // namespace mtpcheck::properties
