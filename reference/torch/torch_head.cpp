#include "reference/torch/torch_head.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "reference/tensor/error.h"
#include "reference/torch/attention.h"
#include "reference/torch/mixture.h"
#include "reference/torch/operators.h"
#include "reference/torch/stored.h"

namespace mtpcheck {
namespace torch_head {

void Recorder::record(const StageKey& key, const at::Tensor& value) const {
  if (!sink_.wants(key.stage)) return;
  const auto packed = value.contiguous();
  TensorView view;
  view.name = to_string(key);
  view.dtype = dtype_of(packed.scalar_type());
  for (const auto extent : packed.sizes()) view.shape.push_back(static_cast<std::size_t>(extent));
  view.bytes = {static_cast<const std::byte*>(packed.const_data_ptr()), packed.nbytes()};
  sink_.record(key, view);
}

namespace {

void check(const HeadConfig& config, const HeadInput& input) {
  const auto tokens = input.tokens();
  if (tokens == 0) throw input_error("the input has no rows");
  if (input.cu_seqlens.size() < 2 || input.cu_seqlens.front() != 0 || !std::ranges::is_sorted(input.cu_seqlens) ||
      input.cu_seqlens.back() != static_cast<std::int64_t>(tokens)) {
    throw input_error(fmt::format("cu_seqlens must rise from 0 to the {} rows of positions", tokens));
  }
  if (std::ranges::any_of(input.positions, [](std::int64_t position) { return position < 0; })) {
    throw input_error("a position is negative");
  }
  const Shape rows{tokens, config.hidden_size};
  if (input.hidden_states.shape != rows) {
    throw input_error(
        fmt::format("hidden_states is {}, expected {}", to_string(input.hidden_states.shape), to_string(rows)));
  }
  if (!input.inputs_embeds.shape.empty()) {
    if (input.inputs_embeds.shape != rows) {
      throw input_error(
          fmt::format("inputs_embeds is {}, expected {}", to_string(input.inputs_embeds.shape), to_string(rows)));
    }
    return;
  }
  if (input.input_ids.size() != tokens) {
    throw input_error(fmt::format("{} input_ids for {} positions", input.input_ids.size(), tokens));
  }
  for (const auto id : input.input_ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= config.vocab_size) {
      throw input_error(fmt::format("token id {} is outside the vocabulary of {}", id, config.vocab_size));
    }
  }
}

at::Tensor rows_of(const Tensor& tensor, at::ScalarType type) {
  return stored(tensor.bytes.data(), tensor.dtype,
                {static_cast<std::int64_t>(tensor.shape[0]), static_cast<std::int64_t>(tensor.shape[1])})
      .to(type);
}

class TorchHead final : public Head {
 public:
  TorchHead(HeadConfig config, HeadWeights weights, const Conventions& conventions, at::ScalarType type)
      : config_(std::move(config)),
        weights_(std::move(weights)),
        conventions_(conventions),
        type_(type),
        caches_(weights_.layers.size()) {}

  std::string name() const override {
    switch (type_) {
      case at::kDouble:
        return "torch f64";
      case at::kHalf:
        return "torch f16";
      case at::kBFloat16:
        return "torch bf16";
      default:
        return "torch f32";
    }
  }

  void reset() override {
    for (auto& layer : caches_) layer.clear();
  }

  void forward(const HeadInput& input, const ForwardOptions& options, StageSink& sink) override {
    check(config_, input);
    check_forced(options.forced, input.tokens());
    const c10::InferenceMode inference;
    const auto index = options.spec_step_idx % weights_.layers.size();
    const auto& layer = weights_.layers[index];
    auto& caches = caches_[index];
    if (caches.empty()) caches.resize(input.sequences());
    if (input.sequences() > caches.size()) {
      throw input_error(
          fmt::format("{} sequences in this call, the caches were begun with {}", input.sequences(), caches.size()));
    }
    const Recorder record(sink, options.step, input.sequences());
    const double eps = config_.rms_norm_eps;

    const auto embed = embedded(input);
    record(Stage::embed_masked, embed);
    const auto enorm = rms_norm(embed, layer.enorm, eps);
    const auto hnorm = rms_norm(rows_of(input.hidden_states, type_), layer.hnorm, eps);
    const auto x = linear(at::cat({enorm, hnorm}, -1), layer.eh_proj);
    const auto attention_input = rms_norm(x, layer.input_layernorm, eps);
    record(Stage::enorm, enorm);
    record(Stage::hnorm, hnorm);
    record(Stage::eh_proj, x);
    record(Stage::input_layernorm, attention_input);
    const auto attended =
        attention(config_, conventions_, layer, input, options.forced, attention_input, caches, record);
    const auto residual1 = attended + x;
    const auto mlp_input = rms_norm(residual1, layer.post_attention_layernorm, eps);
    record(Stage::o_proj, attended);
    record(Stage::residual1, residual1);
    record(Stage::post_attention_layernorm, mlp_input);
    const auto mlp = feed_forward(config_, conventions_, layer, options.forced, mlp_input, record);
    const auto residual2 = mlp + residual1;
    const auto final_norm = rms_norm(residual2, layer.final_layernorm, eps);
    record(Stage::residual2, residual2);
    record(Stage::final_layernorm, final_norm);
    if (record.wants(Stage::logits)) {
      record(Stage::logits, at::linear(final_norm.to(wide(type_)), decoded(layer.lm_head, wide(type_))));
    }
  }

  void rollback(std::size_t sequence, std::size_t length) override {
    const auto kept = static_cast<std::int64_t>(length);
    std::int64_t cached = 0;
    for (const auto& layer : caches_) {
      if (sequence < layer.size()) cached = std::max(cached, layer[sequence].length());
    }
    if (kept > cached) {
      throw input_error(fmt::format("rollback of sequence {} to {} rows, {} are cached", sequence, length, cached));
    }
    const c10::InferenceMode inference;
    for (auto& layer : caches_) {
      if (sequence < layer.size() && layer[sequence].length() > kept) layer[sequence].truncate(kept);
    }
  }

 private:
  static void check_forced(const Selections* forced, std::size_t tokens) {
    if (forced == nullptr) return;
    for (const auto rows : {forced->topk_indices.size(), forced->topk_experts.size()}) {
      if (rows != 0 && rows != tokens) {
        throw input_error(fmt::format("{} rows of forced selections for {} tokens", rows, tokens));
      }
    }
  }

  /// The embedding of the shifted tokens; rows at position 0 are zero where that is the convention. [T, H]
  at::Tensor embedded(const HeadInput& input) const {
    auto embed = input.inputs_embeds.shape.empty()
                     ? embedding(weights_.embed_tokens, at::tensor(input.input_ids, at::kLong), type_)
                     : rows_of(input.inputs_embeds, type_);
    if (!conventions_.position_zero_mask) return embed;
    return embed.masked_fill(at::tensor(input.positions, at::kLong).eq(0).unsqueeze(1), 0);
  }

  HeadConfig config_;
  HeadWeights weights_;
  Conventions conventions_;
  at::ScalarType type_;
  std::vector<std::vector<SequenceCache>> caches_;  ///< [layer][sequence]
};

}  // namespace
}  // namespace torch_head

std::unique_ptr<Head> make_torch_head(HeadConfig config, HeadWeights weights, const Conventions& conventions,
                                      Dtype dtype, int threads) {
  if (dtype != Dtype::f32 && dtype != Dtype::bf16 && dtype != Dtype::f16 && dtype != Dtype::f64) {
    throw usage_error(fmt::format("the torch head runs in f32, bf16, f16 or f64, not in {}", safetensors_name(dtype)));
  }
  if (weights.layers.empty()) throw input_error("the checkpoint has no MTP layer");
  for (const auto& layer : weights.layers) {
    if (layer.moe.has_value() == layer.mlp.has_value()) {
      throw input_error("an MTP layer needs either experts or a dense MLP");
    }
  }
  if (threads > 0) at::set_num_threads(threads);
  return std::make_unique<torch_head::TorchHead>(std::move(config), std::move(weights), conventions,
                                                 torch_head::scalar_type(dtype));
}

}  // namespace mtpcheck
