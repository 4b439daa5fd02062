#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/loading/meaning/logical_weights.h"
#include "harness/loading/meaning/meaning.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

const TensorView& with_bytes(const HeaderSet& headers, std::uint32_t index) {
  const TensorView& tensor = headers.tensors[index];
  if (tensor.bytes.empty() && tensor.elements() > 0) {
    throw input_error(
        fmt::format("{}: tensor {}: only headers were read; a head needs the data", tensor.file, tensor.name));
  }
  return tensor;
}

Matrix matrix_of(const MeantWeight& meant, const HeaderSet& headers) {
  const TensorView& tensor = with_bytes(headers, meant.tensor);
  if (meant.layout == QuantLayout::nvfp4 || meant.layout == QuantLayout::mxfp4) {
    throw input_error(
        fmt::format("{}: tensor {} is quantised in {}, on which heads do not run: dequantise the head, or "
                    "use an export in BF16, FP8 or MXFP8",
                    tensor.file, tensor.name, to_string(meant.layout)));
  }
  Matrix matrix;
  matrix.rows = meant.rows;
  matrix.cols = meant.cols;
  matrix.dtype = tensor.dtype;
  matrix.data = tensor.bytes.data() + meant.first_element * (bits_of(tensor.dtype) / 8);
  matrix.name = tensor.name;
  if (meant.scale != kNoTensor) {
    const ScaleGrid& grid = meant.grid;
    const std::byte* const cells = with_bytes(headers, meant.scale).bytes.data();
    matrix.scales = {grid.read_as,    cells + grid.first_cell * (bits_of(grid.read_as) / 8),
                     grid.block_rows, grid.block_cols,
                     grid.stride,     grid.first_row};
  }
  return matrix;
}

}  // namespace

HeadWeights weights_as_meant(const Meaning& meaning, const HeadConfig& config, const HeaderSet& headers,
                             std::shared_ptr<const void> storage) {
  const auto blocking = std::ranges::find_if(meaning.problems, &MeaningProblem::blocks);
  if (blocking != meaning.problems.end()) {
    const auto others = std::ranges::count_if(meaning.problems, &MeaningProblem::blocks) - 1;
    const std::string rest =
        others == 0 ? std::string() : fmt::format(" ({} more: `mtpcheck audit` lists them)", others);
    throw input_error(describe(*blocking, headers) + rest);
  }
  HeadWeights weights;
  weights.storage = std::move(storage);
  weights.embed_tokens = matrix_of(meaning.embed_tokens, headers);
  weights.layers.assign(meaning.layers, empty_layer(config));
  for (const MeantWeight& meant : meaning.weights) {
    LayerWeights& layer = weights.layers[meant.layer];
    if (meant.vector != nullptr) {
      *meant.vector(layer) = to_f64(with_bytes(headers, meant.tensor));
    } else {
      *meant.matrix(layer, meant.expert) = matrix_of(meant, headers);
    }
  }
  return weights;
}

}  // namespace mtpcheck
