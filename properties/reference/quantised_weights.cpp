// Quantised weights mean what their codes and scales say, wherever the matrix they lie in was cut.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "properties/reference/random_head.h"
#include "reference/head/reference_head.h"
#include "reference/linear/linear.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck::properties {
namespace {

std::size_t any(int low, int high) { return static_cast<std::size_t>(*rc::gen::inRange(low, high)); }

/// A quantised matrix with its bytes: E4M3 or E5M2 codes; float32, bf16 or power-of-two scales on any grid.
struct QuantisedMatrix {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> cells;
  Matrix matrix;

  QuantisedMatrix(std::size_t rows, std::size_t cols, Dtype dtype, Dtype scale_dtype, std::size_t block_rows,
                  std::size_t block_cols, std::uint32_t seed) {
    std::mt19937 random(seed);
    codes.resize(rows * cols);
    for (auto& code : codes) {
      do code = static_cast<std::uint8_t>(random());
      while (!std::isfinite(dtype == Dtype::f8_e4m3 ? e4m3_to_f32(code) : e5m2_to_f32(code)));
    }
    const std::size_t stride = (cols + block_cols - 1) / block_cols;
    const std::size_t count = (rows + block_rows - 1) / block_rows * stride;
    for (std::size_t i = 0; i < count; ++i) {
      const float scale = std::ldexp(1.0F + static_cast<float>(random() % 1000) / 1000, -7);
      if (scale_dtype == Dtype::f8_e8m0) {
        cells.push_back(static_cast<std::uint8_t>(115 + random() % 8));
      } else if (scale_dtype == Dtype::bf16) {
        append(f32_to_bf16(scale));
      } else {
        append(scale);
      }
    }
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.dtype = dtype;
    matrix.data = reinterpret_cast<const std::byte*>(codes.data());
    matrix.scales = {scale_dtype, reinterpret_cast<const std::byte*>(cells.data()), block_rows, block_cols, stride, 0};
  }

  template <class T>
  void append(T value) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&value);
    cells.insert(cells.end(), bytes, bytes + sizeof(T));
  }
  /// The definition: code times the scale of the cell, in float64.
  double element(std::size_t r, std::size_t c) const {
    const std::uint8_t code = codes[r * matrix.cols + c];
    const float value = matrix.dtype == Dtype::f8_e4m3 ? e4m3_to_f32(code) : e5m2_to_f32(code);
    const std::size_t cell = r / matrix.scales.block_rows * matrix.scales.stride + c / matrix.scales.block_cols;
    double scale = 0;
    if (matrix.scales.dtype == Dtype::f8_e8m0) {
      scale = std::ldexp(1.0, cells[cell] - 127);
    } else if (matrix.scales.dtype == Dtype::bf16) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, cells.data() + 2 * cell, 2);
      scale = static_cast<double>(bf16_to_f32(bits));
    } else {
      float narrow = 0;
      std::memcpy(&narrow, cells.data() + 4 * cell, 4);
      scale = static_cast<double>(narrow);
    }
    return static_cast<double>(value) * scale;
  }
};

QuantisedMatrix any_matrix(std::size_t rows, std::size_t cols) {
  const auto dtype = *rc::gen::element(Dtype::f8_e4m3, Dtype::f8_e5m2);
  const auto scales = *rc::gen::element(Dtype::f32, Dtype::bf16, Dtype::f8_e8m0);
  using Block = std::pair<std::size_t, std::size_t>;
  const auto [block_rows, block_cols] =
      *rc::gen::element(Block{128, 128}, Block{1, 32}, Block{1, cols}, Block{rows, cols}, Block{4, 3}, Block{64, 64});
  return {rows, cols, dtype, scales, block_rows, block_cols, any_seed()};
}

RC_GTEST_PROP(QuantisedWeights, DecodeToCodeTimesScale, ()) {
  const auto w = any_matrix(any(1, 140), any(1, 300));
  const auto exact = decode_all<double>(w.matrix);
  const auto narrow = decode_all<float>(w.matrix);
  for (std::size_t r = 0; r < w.matrix.rows; ++r) {
    for (std::size_t c = 0; c < w.matrix.cols; ++c) {
      RC_ASSERT(exact(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c)) == w.element(r, c));
      RC_ASSERT(narrow(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c)) ==
                static_cast<float>(w.element(r, c)));
    }
  }
}

RC_GTEST_PROP(QuantisedWeights, ASliceOfAFusedMatrixGivesTheSameOutputs, ()) {
  const auto w = any_matrix(any(2, 200), any(1, 200));
  const std::size_t first = any(0, static_cast<int>(w.matrix.rows));
  const std::size_t count = any(1, static_cast<int>(w.matrix.rows - first) + 1);
  std::mt19937 random(any_seed());
  std::normal_distribution<float> normal;
  const Rows<float> x = Rows<float>::NullaryExpr(
      static_cast<Eigen::Index>(any(1, 6)), static_cast<Eigen::Index>(w.matrix.cols), [&] { return normal(random); });
  ThreadPool pool(2);
  const auto whole = linear(x, w.matrix, pool);
  const auto part = linear(x, rows_of(w.matrix, first, count), pool);
  RC_ASSERT(part == whole.middleCols(static_cast<Eigen::Index>(first), static_cast<Eigen::Index>(count)));
}

// With power-of-two scales a decoded weight is a float32, so the two heads hold the same numbers.
RC_GTEST_PROP(QuantisedWeights, AQuantisedHeadIsTheHeadOfItsDecodedWeights, ()) {
  auto config = any_config();
  config.sparse_mlp = true;
  const auto plain = random_head(config, any_seed());
  auto quantised = plain.weights();
  std::vector<std::unique_ptr<QuantisedMatrix>> kept;
  std::vector<std::unique_ptr<Rows<float>>> decoded_rows;
  auto decoded = quantised;
  const auto replace = [&](Matrix& in_quantised, Matrix& in_decoded) {
    kept.push_back(std::make_unique<QuantisedMatrix>(in_quantised.rows, in_quantised.cols, Dtype::f8_e4m3,
                                                     Dtype::f8_e8m0, 1, 32, any_seed()));
    in_quantised = kept.back()->matrix;
    decoded_rows.push_back(std::make_unique<Rows<float>>(decode_all<float>(in_quantised)));
    in_decoded.data = reinterpret_cast<const std::byte*>(decoded_rows.back()->data());
  };
  auto& q = quantised.layers[0];
  auto& d = decoded.layers[0];
  replace(q.q_a_proj, d.q_a_proj);
  replace(q.kv_b_proj, d.kv_b_proj);
  replace(q.o_proj, d.o_proj);
  for (std::size_t e = 0; e < q.moe->experts.size(); ++e) {
    replace(q.moe->experts[e].gate, d.moe->experts[e].gate);
    replace(q.moe->experts[e].down, d.moe->experts[e].down);
  }
  const auto input = random_input(config, {any(1, 12)}, any_seed());
  const auto precision = *rc::gen::element(Precision::f64, Precision::f32, Precision::bf16);
  const auto preset = *rc::gen::element(std::string("vllm"), std::string("transformers"));
  const ReferenceOptions options{.precision = precision, .rounding_preset = preset};
  Recording a;
  Recording b;
  make_reference_head(config, quantised, {}, options)->forward(input, {}, a);
  make_reference_head(config, decoded, {}, options)->forward(input, {}, b);
  RC_ASSERT(a.values(Stage::attn_out) == b.values(Stage::attn_out));
  RC_ASSERT(a.values(Stage::logits) == b.values(Stage::logits));
}

}  // namespace
}  // namespace mtpcheck::properties
