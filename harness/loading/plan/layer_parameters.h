#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/loading/plan/parameter.h"

/// Parameters of linear layers and of experts as plans describe them, from the layer's sizes on one rank. What only one
/// engine knows of them (its loaders, its checks, how it shards) it keeps beside them.
namespace mtpcheck {

/// A block of a weight that has one scale.
struct ScaleBlock {
  std::size_t rows = 1;
  std::size_t cols = 1;
};

/// ⌈size / block⌉
std::size_t blocks_of(std::size_t size, std::size_t block);

/// A linear layer.
struct LinearShape {
  std::string name;                    ///< of the module; parameters are called name.weight, name.weight_scale, …
  std::vector<std::string> parts;      ///< the projections that are fused in its rows; one where nothing is
  std::vector<std::size_t> part_rows;  ///< rows of each part
  std::size_t cols = 0;
  std::size_t layer = 0;

  std::size_t rows() const;
};

/// [rows, cols]; stored_cols is half of them where two numbers share a byte.
Parameter linear_weight(const LinearShape& shape, Dtype dtype, std::size_t stored_cols);

/// [⌈rows / block.rows⌉, ⌈cols / block.cols⌉]: a scale a block. A block of one row and all columns is a channel.
Parameter linear_scale_grid(const LinearShape& shape, std::string_view name, Dtype dtype, ScaleBlock block,
                            Initial initial);

/// [parts] or [1]: float32 numbers, one for each part or one for all.
Parameter linear_scalars(const LinearShape& shape, std::string_view name, Role role, Initial initial, bool each_part);

/// The gate and up projections of all experts, or their down projections.
struct ExpertShape {
  std::string stem;                    ///< "….experts.w13"; parameters are called stem_weight, stem_weight_scale, …
  std::vector<std::uint32_t> experts;  ///< global expert of each slot
  std::vector<std::string> parts;      ///< gate_proj and up_proj, of one height; empty for the down projection
  std::size_t rows = 0;                ///< of an expert, all parts together
  std::size_t cols = 0;
  std::size_t layer = 0;
};

/// [experts, rows, cols]
Parameter expert_weight(const ExpertShape& shape, Dtype dtype, std::size_t stored_cols);

/// [experts, parts · ⌈part rows / block.rows⌉, ⌈cols / block.cols⌉]
Parameter expert_scale_grid(const ExpertShape& shape, std::string_view name, Dtype dtype, ScaleBlock block,
                            Initial initial);

/// [experts, parts] or [experts]: float32 numbers.
Parameter expert_scalars(const ExpertShape& shape, std::string_view name, Role role, Initial initial, bool each_part);

/// A norm, a bias, a sink, a KV-cache scale, or a matrix of an engine's own.
Parameter plain_parameter(std::string name, Dtype dtype, Shape shape, Initial initial, Role role, std::size_t layer);

}  // namespace mtpcheck
