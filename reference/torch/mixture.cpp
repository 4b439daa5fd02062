#include "reference/torch/mixture.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <limits>

#include "reference/tensor/error.h"
#include "reference/torch/operators.h"
#include "reference/torch/stored.h"

namespace mtpcheck::torch_head {
namespace {

/// down(silu(gate x) · (up x)); `limit` > 0 clamps the gate from above and the up-projection on both sides.
at::Tensor swiglu(const MlpWeights& mlp, const at::Tensor& x, double limit) {
  const auto type = wide(x.scalar_type());
  auto gate = linear(x, mlp.gate).to(type);
  auto up = linear(x, mlp.up).to(type);
  if (limit > 0) {
    gate = gate.clamp_max(limit);
    up = up.clamp(-limit, limit);
  }
  return linear((gate * gate.sigmoid() * up).to(x.scalar_type()), mlp.down);
}

/// −inf for the experts outside the `topk_group` best of `n_group` groups; a group counts by its two best experts.
at::Tensor only_best_groups(const at::Tensor& choice, const HeadConfig& config) {
  const auto grouped = choice.unflatten(-1, {signed_size(config.n_group), -1});  // [T, groups, E/groups]
  const auto pair = std::min<std::int64_t>(2, grouped.size(-1));
  const auto worth = grouped.gather(-1, largest(grouped, pair)).sum(-1);
  const auto kept = largest(worth, signed_size(config.topk_group));
  const auto mask = at::zeros(worth.sizes(), at::TensorOptions(at::kBool)).scatter(-1, kept, true);
  return grouped.masked_fill(mask.logical_not().unsqueeze(-1), -std::numeric_limits<double>::infinity()).flatten(-2);
}

/// [T, K] ascending expert ids that are given.
at::Tensor forced_experts(const Selections& forced, const HeadConfig& config) {
  const auto rows = forced.topk_experts.size();
  auto result = at::empty({signed_size(rows), signed_size(config.num_experts_per_tok)}, at::TensorOptions(at::kLong));
  auto* out = result.mutable_data_ptr<std::int64_t>();
  for (const auto& row : forced.topk_experts) {
    if (row.size() != config.num_experts_per_tok) {
      throw input_error(fmt::format("forced topk_experts: {} experts in a row, the config says {}", row.size(),
                                    config.num_experts_per_tok));
    }
    for (const auto expert : row) {
      if (expert < 0 || static_cast<std::size_t>(expert) >= config.n_routed_experts) {
        throw input_error(fmt::format("forced topk_experts: expert {} of {}", expert, config.n_routed_experts));
      }
      *out++ = expert;
    }
  }
  return std::get<0>(result.sort(-1));
}

struct Routing {
  at::Tensor experts;  // [T, K] int64, ascending
  at::Tensor weights;  // [T, K] wide
};

Routing route(const HeadConfig& config, const Conventions& conventions, const MoeWeights& moe, const Selections* forced,
              const at::Tensor& x, const Recorder& record) {
  const auto type = wide(x.scalar_type());
  const auto logits = at::linear(x.to(type), decoded(moe.router, type));
  record(Stage::router_logits, logits);
  const auto score = logits.sigmoid();
  at::Tensor experts;
  if (forced != nullptr && !forced->topk_experts.empty()) {
    experts = forced_experts(*forced, config);
  } else {
    auto choice = score + vector_of(moe.expert_bias, type);
    if (conventions.group_routing) choice = only_best_groups(choice, config);
    experts = std::get<0>(largest(choice, signed_size(config.num_experts_per_tok)).sort(-1));
  }
  auto weights = score.gather(-1, experts);
  if (config.norm_topk_prob) weights = weights / (weights.sum(-1, /*keepdim=*/true) + 1e-20);
  weights = weights * config.routed_scaling_factor;
  record(Stage::topk_experts, experts.to(at::kInt));
  record(Stage::topk_weights, weights);
  return {experts, weights};
}

/// Σ_k weight_k · expert_k(x): experts in ascending order, each on the rows that chose it.
at::Tensor routed(const HeadConfig& config, const MoeWeights& moe, const Routing& routing, const at::Tensor& x) {
  auto sum = at::zeros(x.sizes(), at::TensorOptions(routing.weights.scalar_type()));
  for (std::size_t expert = 0; expert < moe.experts.size(); ++expert) {
    const auto hits = routing.experts.eq(signed_size(expert)).nonzero();  // [hits, 2]: row, place
    if (hits.size(0) == 0) continue;
    const auto rows = hits.select(1, 0);
    const auto weight = routing.weights.index({rows, hits.select(1, 1)}).unsqueeze(1);
    const auto out = swiglu(moe.experts[expert], x.index_select(0, rows), config.swiglu_limit);
    sum.index_add_(0, rows, out.to(sum.scalar_type()) * weight);
  }
  return sum.to(x.scalar_type());
}

}  // namespace

at::Tensor feed_forward(const HeadConfig& config, const Conventions& conventions, const LayerWeights& weights,
                        const Selections* forced, const at::Tensor& x, const Recorder& record) {
  if (!weights.moe) {
    auto out = swiglu(*weights.mlp, x, 0);
    record(Stage::mlp_out, out);
    return out;
  }
  const auto routing = route(config, conventions, *weights.moe, forced, x, record);
  auto out = routed(config, *weights.moe, routing, x);
  record(Stage::experts_out, out);
  if (weights.moe->shared) {
    const auto shared = swiglu(*weights.moe->shared, x, 0);
    record(Stage::shared_out, shared);
    out = out + shared;
  }
  record(Stage::mlp_out, out);
  return out;
}

}  // namespace mtpcheck::torch_head
