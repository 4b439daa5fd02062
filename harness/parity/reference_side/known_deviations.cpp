#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "harness/parity/reference_side/reference_side.h"

namespace mtpcheck {
namespace {

using enum Stage;

const std::vector<Stage> kNorms = {enorm, hnorm, input_layernorm, q_c, kv_c, post_attention_layernorm, final_layernorm};
const std::vector<Stage> kRotated = {q_rope, k_pe};
const std::vector<Stage> kIndexerRotated = {indexer_q, indexer_k};

std::vector<Stage> both(std::vector<Stage> stages, const std::vector<Stage>& more) {
  stages.insert(stages.end(), more.begin(), more.end());
  return stages;
}

/// A deviation that is a switch.
KnownDeviation flag(std::string description, std::vector<Stage> stages, bool Deviations::*member) {
  return {std::move(description), std::move(stages),
          [member](Conventions&, Deviations& deviations) { deviations.*member = true; }};
}

std::string_view other_name(RopePairing pairing) {
  return pairing == RopePairing::interleaved ? "half-split" : "interleaved";
}

RopePairing other(RopePairing pairing) {
  return pairing == RopePairing::interleaved ? RopePairing::half_split : RopePairing::interleaved;
}

void add_conventions(std::vector<KnownDeviation>& list, const HeadConfig& config, const Conventions& ours) {
  list.push_back({fmt::format("{} RoPE", other_name(ours.rope)), kRotated,
                  [](Conventions& conventions, Deviations&) { conventions.rope = other(conventions.rope); }});
  list.push_back({fmt::format("{} RoPE", other_name(ours.indexer_rope)), kIndexerRotated,
                  [](Conventions& c, Deviations&) { c.indexer_rope = other(c.indexer_rope); }});
  list.push_back({"embeddings that are not zero at position 0", {embed_masked}, [](Conventions& c, Deviations&) {
                    c.position_zero_mask = !c.position_zero_mask;
                  }});
  if (ours.latent_norm_eps && *ours.latent_norm_eps != config.rms_norm_eps) {
    list.push_back({fmt::format("latent_norm_eps = rms_norm_eps ({:g})", config.rms_norm_eps),
                    {q_c, kv_c},
                    [](Conventions& c, Deviations&) { c.latent_norm_eps.reset(); }});
  }
  for (const double eps : {1e-6, 1e-5, 1e-12}) {
    if (ours.latent_norm_eps.value_or(config.rms_norm_eps) != eps) {
      list.push_back({fmt::format("latent_norm_eps = {:g}", eps), {q_c, kv_c}, [eps](Conventions& c, Deviations&) {
                        c.latent_norm_eps = eps;
                      }});
    }
    if (ours.k_norm_eps.value_or(config.rms_norm_eps) != eps) {
      list.push_back({fmt::format("k_norm_eps = {:g}", eps), {indexer_k}, [eps](Conventions& c, Deviations&) {
                        c.k_norm_eps = eps;
                      }});
    }
    if (config.rms_norm_eps != eps) {
      list.push_back({fmt::format("an RMSNorm eps of {:g}", eps), kNorms,
                      [eps](Conventions&, Deviations& d) { d.norm_eps = eps; }});
    }
  }
  list.push_back({ours.indexer_fp8 ? "an indexer without FP8" : "an indexer with FP8 queries and keys",
                  {indexer_q, indexer_k, indexer_scores, topk_indices},
                  [](Conventions& c, Deviations&) { c.indexer_fp8 = !c.indexer_fp8; }});
  if (config.n_group > 1) {
    list.push_back({ours.group_routing ? "routing without groups" : "routing in groups",
                    {topk_experts},
                    [](Conventions& c, Deviations&) { c.group_routing = !c.group_routing; }});
  }
}

void add_norms(std::vector<KnownDeviation>& list) {
  list.push_back(flag("a norm weight of 1 + w", kNorms, &Deviations::norm_weight_plus_one));
  list.push_back(
      flag("RMSNorm in place of the indexer's LayerNorm", {indexer_k}, &Deviations::index_norm_without_mean));
  list.push_back(flag("the indexer's LayerNorm without its bias", {indexer_k}, &Deviations::index_norm_without_bias));
  list.push_back(flag("the indexer's LayerNorm in bf16", {indexer_k}, &Deviations::index_norm_bf16));
}

void add_inputs(std::vector<KnownDeviation>& list) {
  list.push_back(flag("[hnorm | enorm] in place of [enorm | hnorm]", {eh_proj}, &Deviations::swap_eh_halves));
  list.push_back(flag("no enorm", {enorm}, &Deviations::skip_enorm));
  list.push_back(flag("no hnorm", {hnorm}, &Deviations::skip_hnorm));
  list.push_back(flag("a mask of the first row of the batch only", {embed_masked}, &Deviations::mask_first_row_only));
  for (const std::int64_t shift : {1, -1}) {
    list.push_back({fmt::format("positions shifted by {:+}", shift), both(kRotated, kIndexerRotated),
                    [shift](Conventions&, Deviations& d) { d.position_shift = shift; }});
  }
}

/// The hidden states changed row by row, in float64.
void change_rows(HeadInput& input, const std::function<void(std::span<double>)>& change) {
  std::vector<double> values = to_f64(input.hidden_states.view());
  const std::size_t width = values.size() / input.tokens();
  for (std::size_t row = 0; row < input.tokens(); ++row) change(std::span(values).subspan(row * width, width));
  input.hidden_states = tensor_of<double>(input.hidden_states.shape, std::span<const double>(values));
}

/// What may have been fed in place of the target's hidden state after its final norm. hnorm does not see a row's scale,
/// so that the state before the norm is, but for its eps, the one after it without the norm's weight.
void add_fed_wrongly(std::vector<KnownDeviation>& list, const ReferenceSide& side) {
  const auto fed = [&](std::string description, std::function<void(HeadInput&)> feed) {
    list.push_back({std::move(description), {hnorm}, [](Conventions&, Deviations&) {}, std::move(feed)});
  };
  const Vector& weight = side.target_norm;
  if (weight.size() == side.config.hidden_size && side.conventions.hidden_state == HiddenState::post_norm) {
    fed("the target's hidden state before its final norm", [weight](HeadInput& input) {
      change_rows(input, [&weight](std::span<double> row) {
        for (std::size_t i = 0; i < row.size(); ++i) row[i] /= weight[i];
      });
    });
    const double eps = side.config.rms_norm_eps;
    fed("the target's hidden state with its final norm applied twice", [weight, eps](HeadInput& input) {
      change_rows(input, [&weight, eps](std::span<double> row) {
        double squares = 0;
        for (const double value : row) squares += value * value;
        const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + eps);
        for (std::size_t i = 0; i < row.size(); ++i) row[i] *= scale * weight[i];
      });
    });
  }
  fed("hidden states one row late", [](HeadInput& input) {
    auto& bytes = input.hidden_states.bytes;
    const auto row = static_cast<std::ptrdiff_t>(bytes.size() / input.tokens());
    std::copy_backward(bytes.begin(), bytes.end() - row, bytes.end());
  });
}

void add_rope(std::vector<KnownDeviation>& list) {
  list.push_back(flag("RoPE without its scaling", both(kRotated, kIndexerRotated), &Deviations::rope_unscaled));
  list.push_back(
      flag("RoPE on the first dimensions of the indexer's heads", kIndexerRotated, &Deviations::rope_first_dims));
  for (const double theta : {1e4, 1e6, 1e7}) {
    list.push_back({fmt::format("a rope_theta of {:g}", theta), both(kRotated, kIndexerRotated),
                    [theta](Conventions&, Deviations& d) { d.rope_theta = theta; }});
  }
}

void add_attention(std::vector<KnownDeviation>& list) {
  list.push_back(flag("attention without sinks", {attn_probs, attn_out}, &Deviations::ignore_sink));
  list.push_back(flag("sinks in bf16", {attn_probs, attn_out}, &Deviations::sink_bf16));
  list.push_back(flag("dense attention", {attn_probs, attn_out}, &Deviations::dense_attention));
  list.push_back(flag("a softmax scale of the nope dimensions alone", {attn_probs, attn_out},
                      &Deviations::softmax_scale_nope_only));
  list.push_back(flag("no output gate", {gated}, &Deviations::ignore_gate));
  list.push_back(flag("an output gate without its sigmoid", {gated}, &Deviations::gate_without_sigmoid));
}

void add_experts(std::vector<KnownDeviation>& list) {
  // The milder first: where one flip is all there is, no bias at all may explain it too.
  list.push_back(flag("a correction bias in bf16", {topk_experts}, &Deviations::expert_bias_bf16));
  list.push_back(flag("no correction bias", {topk_experts}, &Deviations::ignore_expert_bias));
  list.push_back(flag("a softmax router", {topk_experts, topk_weights}, &Deviations::softmax_router));
  list.push_back(flag("the correction bias in the weights", {topk_weights}, &Deviations::expert_bias_in_weights));
  list.push_back(flag("weights that are not normalised", {topk_weights}, &Deviations::weights_not_normalised));
  for (const int times : {0, 2}) {
    list.push_back({times == 0 ? "no routed_scaling_factor" : "routed_scaling_factor applied twice",
                    {topk_weights, experts_out},
                    [times](Conventions&, Deviations& d) { d.scaling_factor_times = times; }});
  }
  list.push_back(flag("routed_scaling_factor on the shared expert too", {shared_out, mlp_out},
                      &Deviations::scaling_factor_on_shared));
  list.push_back(flag("gate and up exchanged", {experts_out, shared_out, mlp_out}, &Deviations::swap_gate_up));
  list.push_back(
      flag("gate and up taken alternately", {experts_out, shared_out, mlp_out}, &Deviations::interleaved_gate_up));
  list.push_back(flag("[gate; up] read transposed", {experts_out}, &Deviations::transposed_gate_up));
  list.push_back(flag("each expert with its neighbour's weight", {experts_out}, &Deviations::weights_of_next_choice));
  list.push_back(flag("no SwiGLU clamp", {experts_out}, &Deviations::no_clamp));
  list.push_back(flag("a SwiGLU clamp on the shared expert", {shared_out}, &Deviations::clamp_shared));
  list.push_back(flag("no shared expert", {shared_out, mlp_out}, &Deviations::skip_shared));
}

void add_weights(std::vector<KnownDeviation>& list) {
  const std::vector<Stage> projections = {eh_proj, q_a,    q,          kv_a,        indexer_q, indexer_k, attn_out,
                                          gate,    o_proj, shared_out, experts_out, mlp_out,   logits};
  list.push_back(flag("quantised weights without their scales", projections, &Deviations::ignore_scales));
  list.push_back(flag("a transposed weight", projections, &Deviations::transposed_weights));
}

}  // namespace

std::vector<KnownDeviation> known_deviations(const ReferenceSide& side) {
  const HeadConfig& config = side.config;
  const Conventions& conventions = side.conventions;
  std::vector<KnownDeviation> list;
  add_conventions(list, config, conventions);
  add_norms(list);
  add_inputs(list);
  add_fed_wrongly(list, side);
  add_rope(list);
  add_attention(list);
  add_experts(list);
  add_weights(list);
  return list;
}

}  // namespace mtpcheck
