#include "harness/loading/vllm/load/indexer_wk.h"

#include <fmt/format.h>

#include "harness/loading/symbolic/python_text.h"

namespace mtpcheck::vllm {
namespace {

std::size_t divided(std::size_t size, std::size_t by) {
  if (by == 0) throw Raised{"ZeroDivisionError", "integer division or modulo by zero"};
  return size / by;
}

// The scale's grid over the weight. vLLM derives the block's height and width from the two shapes, each rounded down,
// and then insists that the grid fits: 192 rows under 2 scales are blocks of 96, not of 128.
struct ScaleGridOfWk {
  std::size_t rows;
  std::size_t cols;
};

ScaleGridOfWk grid_of(const SourceView& weight, const SourceView& scale) {
  const bool per_row = scale.ndim() == 1;
  const std::size_t height = per_row ? 1 : divided(weight.size(0), scale.size(0));
  const std::size_t width = per_row ? weight.size(1) : divided(weight.size(1), scale.size(1));
  ScaleGridOfWk grid{1, 1};
  if (scale.numel() != 1) {
    if (per_row) {
      // One row of weights takes a vector of scales for its columns.
      grid = weight.size(-2) == 1 ? ScaleGridOfWk{1, scale.size(0)} : ScaleGridOfWk{scale.size(0), 1};
    } else {
      grid = {scale.size(-2), scale.size(-1)};
    }
  }
  python_assert(grid.cols == divided(weight.size(-1), width));
  python_assert(grid.rows == divided(weight.size(-2), height));
  if (scale.ndim() > 2 && scale.numel() != 1) {
    throw Raised{"RuntimeError", fmt::format("a scale of {} does not broadcast over a weight of {}",
                                             torch_size(scale.shape()), torch_size(weight.shape()))};
  }
  python_assert(grid.rows == 1 || weight.size(-2) % grid.rows == 0);
  python_assert(grid.cols == 1 || weight.size(-1) % grid.cols == 0);
  return grid;
}

SourceView dequantise(const SourceView& weight, const SourceView& scale) {
  const ScaleGridOfWk grid = grid_of(weight, scale);
  const bool exponents = scale.dtype() == Dtype::u8 || scale.dtype() == Dtype::f8_e8m0;
  Conversion conversion;
  conversion.kind = Conversion::Kind::dequantise;
  conversion.read_as = weight.dtype();
  conversion.scale_tensor = scale.tensor();
  conversion.scale_read_as = exponents ? Dtype::f8_e8m0 : scale.dtype();
  conversion.group_rows = weight.size(-2) / grid.rows;
  conversion.group_cols = weight.size(-1) / grid.cols;
  conversion.grid_cols = grid.cols;
  return weight.dequantised(conversion);
}

}  // namespace

IndexerWkPairs::Step IndexerWkPairs::offer(const std::string& name, const SourceView& tensor) {
  if (!contains(name, "indexer.wk.") || contains(name, "wk_weights")) return {};
  const bool is_weight = name.ends_with(".weight") && tensor.dtype() == Dtype::f8_e4m3;
  const bool is_scale = contains(name, "weight_scale");
  if (!is_weight && !is_scale) return {};
  const std::string indexer = name.substr(0, name.rfind(".wk."));
  Pair& pair = pending_[indexer];
  (is_weight ? pair.weight : pair.scale) = tensor;
  if (!pair.weight || !pair.scale) return {true, std::nullopt, {}};
  const Pair complete = pair;
  pending_.erase(indexer);
  return {true, dequantise(*complete.weight, *complete.scale), indexer + ".wk_weights_proj.weight"};
}

}  // namespace mtpcheck::vllm
