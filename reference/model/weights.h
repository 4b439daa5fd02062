#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reference/tensor/dtype.h"

namespace mtpcheck {

/// The scale grid of a quantised matrix. One form for every layout: element (r, c) is multiplied by cell
/// ((first_row + r) / block_rows, c / block_cols).
///
///   FP8 block     128 × 128      MXFP8 1 × 32, E8M0      per channel 1 × cols      per tensor rows × cols
struct Scales {
  Dtype dtype = Dtype::f32;         ///< f32, bf16, f16 or f8_e8m0 (uint8 exponents are given as f8_e8m0)
  const std::byte* data = nullptr;  ///< cells, row-major; need not be aligned; nullptr: not quantised
  std::size_t block_rows = 1;
  std::size_t block_cols = 1;
  std::size_t stride = 0;     ///< cells from one grid row to the next
  std::size_t first_row = 0;  ///< of this matrix in the grid's row coordinates: a slice keeps its parent's blocks
};

/// A weight matrix [rows, cols] where its bytes lie, decoded in use and never as a whole.
struct Matrix {
  std::size_t rows = 0;
  std::size_t cols = 0;
  Dtype dtype = Dtype::bf16;        ///< bf16, f16, f32, f64, f8_e4m3, f8_e5m2
  const std::byte* data = nullptr;  ///< row-major, rows back to back; need not be aligned
  Scales scales;
  std::string name;  ///< the tensor it comes from, for messages

  bool empty() const { return data == nullptr; }
};

/// Rows [first, first + count) of a matrix; its scales keep their blocks.
Matrix rows_of(const Matrix& matrix, std::size_t first, std::size_t count);

/// A small vector (norm weight, bias, sink), exact in float64.
using Vector = std::vector<double>;

/// SwiGLU: down(silu(gate x) · (up x)).
struct MlpWeights {
  Matrix gate;  // [I, H]
  Matrix up;    // [I, H]
  Matrix down;  // [H, I]
};

/// The lightning indexer (DeepSeek-V3.2) of a sparse layer.
struct IndexerWeights {
  Matrix wq_b;           // [h·d, Lq]
  Matrix wk;             // [d, H]
  Matrix weights_proj;   // [h, H]
  Vector k_norm_weight;  // [d]
  Vector k_norm_bias;    // [d]
};

struct MoeWeights {
  Matrix router;                     // [E, H]
  Vector expert_bias;                // [E], e_score_correction_bias
  std::vector<MlpWeights> experts;   // E
  std::optional<MlpWeights> shared;  // width I · n_shared_experts; absent with none
};

/// One MTP layer.
struct LayerWeights {
  Vector enorm, hnorm, final_layernorm;              // [H]
  Matrix eh_proj;                                    // [H, 2H]
  Vector input_layernorm, post_attention_layernorm;  // [H]
  Matrix q_a_proj;                                   // [Lq, H]
  Vector q_a_layernorm;                              // [Lq]
  Matrix q_b_proj;                                   // [N(n+r), Lq]
  Matrix kv_a_proj;                                  // [Lkv+r, H]
  Vector kv_a_layernorm;                             // [Lkv]
  Matrix kv_b_proj;                                  // [N(n+v), Lkv]
  Matrix o_proj;                                     // [H, N·v]
  Matrix linear_gate;                                // [N·v or N, H]; empty without a gate
  Vector sink;                                       // [N]; empty without sinks
  std::optional<IndexerWeights> indexer;             // sparse attention
  std::optional<MoeWeights> moe;                     // exactly one of moe and mlp
  std::optional<MlpWeights> mlp;
  Matrix lm_head;  // [V, H]
};

/// What a head runs on. `storage` keeps alive what the matrices point into: the mapped files of weights *as meant*, or
/// the parameters carried out by a loader's plan of weights *as loaded*.
struct HeadWeights {
  Matrix embed_tokens;  // [V, H]
  std::vector<LayerWeights> layers;
  std::shared_ptr<const void> storage;
};

}  // namespace mtpcheck
