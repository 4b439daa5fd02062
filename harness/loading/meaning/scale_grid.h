#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reference/tensor/dtype.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// How a tensor is quantised, as its own dtype and its scale's shape show.
enum class QuantLayout : std::uint8_t {
  none,
  block,        ///< one scale a block of rows × columns, 128 × 128 unless the config says otherwise
  mx,           ///< one scale for 32 columns of a row
  per_channel,  ///< one scale a row
  per_tensor,   ///< one scale, or one for each of the projections fused in the tensor
  nvfp4,        ///< E2M1 in pairs, E4M3 scales for 16 columns, one more for the tensor
  mxfp4,        ///< E2M1 in pairs, E8M0 scales for 32 columns
};

std::string_view to_string(QuantLayout layout);

/// Where the scale of each element of a weight lies in its scale tensor: element (r, c) of the weight has cell
/// first_cell + (first_row + r) / block_rows · stride + c / block_cols.
struct ScaleGrid {
  Dtype read_as = Dtype::f32;  ///< what the scale's bytes are: uint8 holds E8M0 exponents
  std::size_t first_cell = 0;
  std::size_t first_row = 0;
  std::size_t block_rows = 1;
  std::size_t block_cols = 1;
  std::size_t stride = 1;
};

/// A weight within its tensor, which may hold all experts and several projections on top of each other.
struct WeightPlace {
  std::optional<std::size_t> expert;   ///< slab of a packed tensor; nullopt: the tensor has no expert dimension
  std::size_t experts = 0;             ///< slabs
  std::vector<std::size_t> part_rows;  ///< rows of the projections fused in the tensor (of one slab), in order
  std::size_t part = 0;                ///< which of them the weight is
  std::size_t cols = 0;

  std::size_t rows() const { return part_rows[part]; }
  std::size_t total_rows() const;
  std::size_t first_row() const;
};

/// Rows and columns of a block.
using BlockSize = std::array<std::size_t, 2>;

/// What config.json says of the quantisation: a hint, since the tensors decide, but a scale that has another number of
/// cells than the layout calls for is no scale of that layout.
struct DeclaredQuantisation {
  std::optional<QuantLayout> layout;  ///< nullopt: none, several, or one that is not known
  std::optional<BlockSize> block;
};

struct GridDecision {
  QuantLayout layout = QuantLayout::none;
  ScaleGrid grid;
};

/// The layout of the scales of a weight from shapes and dtypes, or why there is none that fits. A per-expert scale has
/// the experts as its first dimension.
///
/// Fused projections whose blocks could be counted either over each or over all rows are read over each, as engines do.
std::variant<GridDecision, std::string> decide_grid(const WeightPlace& place, Dtype weight, const TensorView& scale,
                                                    const DeclaredQuantisation& declared);

}  // namespace mtpcheck
