// The CUDA kernels, executed on the CPU, on heads of any shape: odd widths, one head, one expert, dense and sparse,
// every gate.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cuda/head/make_cuda_head.h"
#include "properties/reference/random_head.h"
#include "reference/head/reference_head.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck::properties {
namespace {

std::uint32_t any_seed() { return *rc::gen::arbitrary<std::uint32_t>(); }

/// What bf16 holds exactly, so that the upload rounds nothing.
void round_matrix(Rows<float>& m) {
  m = m.unaryExpr([](float x) { return round_to_bf16(x); });
}

void round_mlp(PlainMlp& mlp) {
  for (Rows<float>* m : {&mlp.gate, &mlp.up, &mlp.down}) round_matrix(*m);
}

PlainHead bf16_head(const HeadConfig& config) {
  PlainHead head = random_head(config, any_seed());
  for (Rows<float>* m : {&head.embed, &head.lm_head, &head.eh_proj, &head.q_a, &head.q_b, &head.kv_a, &head.kv_b,
                         &head.o_proj, &head.linear_gate, &head.wq_b, &head.wk, &head.weights_proj}) {
    round_matrix(*m);
  }
  for (auto& expert : head.experts) round_mlp(expert);
  round_mlp(head.shared);
  return head;
}

Conventions any_conventions() {
  Conventions conventions;
  conventions.rope = *rc::gen::element(RopePairing::interleaved, RopePairing::half_split);
  conventions.indexer_rope = *rc::gen::element(RopePairing::interleaved, RopePairing::half_split);
  conventions.position_zero_mask = *rc::gen::arbitrary<bool>();
  conventions.indexer_fp8 = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) conventions.latent_norm_eps = 1e-6;
  return conventions;
}

Selections selections_of(const Recording& recording) {
  Selections forced;
  for (const auto& [key, tensor] : recording.all) {
    const bool keys = key.stage == Stage::topk_indices;
    if (!keys && key.stage != Stage::topk_experts) continue;
    const auto values = to_i64(tensor.view());
    auto& rows = keys ? forced.topk_indices : forced.topk_experts;
    for (std::size_t r = 0; r < tensor.shape[0]; ++r) {
      auto& row = rows.emplace_back();
      for (std::size_t i = 0; i < tensor.shape[1]; ++i) {
        const std::int64_t value = values[r * tensor.shape[1] + i];
        if (value >= 0) row.push_back(static_cast<std::int32_t>(value));
      }
    }
  }
  return forced;
}

/// Distance of two stages over the truth's size: root mean squares, equal infinities apart by nothing.
double relative_error(const std::vector<double>& a, const std::vector<double>& truth) {
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == truth[i]) continue;
    error += (a[i] - truth[i]) * (a[i] - truth[i]);
  }
  for (const double v : truth) size += std::isfinite(v) ? v * v : 0.0;
  return error == 0 ? 0 : std::sqrt(error / size);
}

/// The same rows, each entry off by about what bf16 rounds.
HeadInput perturbed(const HeadInput& input, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> noise(-1.0f / 128, 1.0f / 128);
  auto hidden = to_f32(input.hidden_states.view());
  for (float& value : hidden) value *= 1 + noise(random);
  HeadInput out = input;
  out.hidden_states = tensor_of<float>(input.hidden_states.shape, hidden);
  return out;
}

/// A kernel that is wrong anywhere is wrong by the size of its stage. bf16 costs a percent or so. It costs more where a
/// narrow head's few values cancel (a LayerNorm of two equal entries, a ReLU's edge): there the exact head moves as
/// much when its input moves by a rounding, which eight perturbed inputs show, and the rounded reference in its own
/// way.
void expect_same_head(const HeadConfig& config, const HeadInput& input) {
  const PlainHead head = bf16_head(config);
  const Conventions conventions = any_conventions();
  Recording ours;
  make_emulated_cuda_head(config, head.weights(), conventions)->forward(input, {}, ours);
  const Selections forced = selections_of(ours);
  const auto reference = [&](Precision precision, const HeadInput& rows) {
    Recording recording;
    make_reference_head(config, head.weights(), conventions, {.precision = precision})
        ->forward(rows, {.forced = &forced}, recording);
    return recording;
  };
  const Recording truth = reference(Precision::f64, input);
  std::vector<Recording> disturbed{reference(Precision::bf16, input)};
  for (std::uint32_t seed = 0; seed < 8; ++seed) disturbed.push_back(reference(Precision::f64, perturbed(input, seed)));
  RC_ASSERT(ours.all.size() == truth.all.size());
  for (std::size_t i = 0; i < ours.all.size(); ++i) {
    const auto& [key, value] = ours.all[i];
    RC_ASSERT(key == truth.all[i].key);
    RC_ASSERT(value.shape == truth.all[i].value.shape);
    if (info(key.stage).kind != StageKind::values) continue;
    // Codes of a quantised index key step by 1/8: what bf16 moves by a hair may move them by a step.
    const double allowed =
        conventions.indexer_fp8 && key.stage <= Stage::indexer_scores && key.stage >= Stage::indexer_q ? 0.15 : 0.08;
    const auto exact = to_f64(truth.all[i].value.view());
    const double error = relative_error(to_f64(value.view()), exact);
    double cost = 0;
    for (const auto& one : disturbed) cost = std::max(cost, relative_error(to_f64(one.all[i].value.view()), exact));
    RC_LOG() << to_string(key) << ": " << error << ", disturbed reference " << cost << "\n";
    RC_ASSERT(error <= allowed + 6 * cost);
  }
}

RC_GTEST_PROP(EmulatedCudaHead, HeadsOfAnyShapeAndPackedBatches, ()) {
  const HeadConfig config = any_config();
  std::vector<std::size_t> lengths;
  for (int s = *rc::gen::inRange(1, 4); s > 0; --s)
    lengths.push_back(static_cast<std::size_t>(*rc::gen::inRange(0, 14)));
  lengths.push_back(static_cast<std::size_t>(*rc::gen::inRange(1, 14)));
  expect_same_head(config, random_input(config, lengths, any_seed()));
}

RC_GTEST_PROP(EmulatedCudaHead, OneSequenceOfUpTo130Tokens, ()) {
  const HeadConfig config = any_config();
  const auto tokens = static_cast<std::size_t>(*rc::gen::inRange(1, 131));
  expect_same_head(config, random_input(config, {tokens}, any_seed()));
}

}  // namespace
}  // namespace mtpcheck::properties
