#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/math/rows.h"
#include "reference/model/config.h"
#include "reference/model/head.h"
#include "reference/model/input.h"
#include "reference/model/weights.h"

namespace mtpcheck::properties {

struct PlainMlp {
  Rows<float> gate, up, down;
};

/// A head whose matrices are plain float32 rows, to be permuted and scaled at will.
struct PlainHead {
  HeadConfig config;
  Rows<float> embed, lm_head, eh_proj;
  Rows<float> q_a, q_b, kv_a, kv_b, o_proj, linear_gate;
  Rows<float> wq_b, wk, weights_proj;
  Vector k_norm_weight, k_norm_bias;
  Vector enorm, hnorm, input_norm, post_norm, final_norm, q_a_norm, kv_a_norm, sink, bias;
  Rows<float> router;
  std::vector<PlainMlp> experts;
  PlainMlp shared;  ///< also the dense MLP

  /// One MTP layer that looks into a copy of these rows, which it keeps alive.
  HeadWeights weights() const;
};

/// Sizes drawn by RapidCheck: odd ones, one head, one expert, widths beside every tile. Sparse and dense attention,
/// experts or one MLP, every kind of gate, with and without sinks.
HeadConfig any_config();

/// Any seed.
std::uint32_t any_seed();

/// Weights of a config from a seed: norms near 1, matrices scaled so that values stay near 1 from stage to stage.
PlainHead random_head(const HeadConfig& config, std::uint32_t seed);

/// A batch of packed sequences with `lengths` rows, each sequence's positions ascending by one from a random start.
HeadInput random_input(const HeadConfig& config, const std::vector<std::size_t>& lengths, std::uint32_t seed);

/// Every stage under its name.
class Recording final : public StageSink {
 public:
  struct Recorded {
    StageKey key;
    Tensor value;
  };
  bool wants(Stage /*stage*/) const override { return true; }
  void record(const StageKey& key, const TensorView& value) override;
  const Tensor& at(Stage stage, std::size_t sequence = 0) const;
  std::vector<double> values(Stage stage) const;

  std::vector<Recorded> all;
};

/// Largest |a − b| over the largest |b| (1 where that is smaller); infinite where shapes differ or only one is NaN.
double distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace mtpcheck::properties
