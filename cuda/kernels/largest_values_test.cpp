// The largest values of each format through the kernels whose arithmetic they strain: what is finite by the definition
// stays finite, what is not is infinite, and nothing becomes NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/kernels/attention/output_gate.h"
#include "cuda/kernels/indexer/index_layout.h"
#include "cuda/kernels/indexer/index_query.h"
#include "cuda/kernels/linear/linear.h"
#include "cuda/kernels/linear/linear_f32.h"
#include "cuda/kernels/moe/combine.h"
#include "cuda/kernels/moe/experts.h"
#include "cuda/kernels/norm/add_rms_norm.h"
#include "cuda/kernels/sampling/argmax.h"
#include "cuda/kernels/sampling/softmax.h"
#include "cuda/kernels/testing/close.h"
#include "cuda/kernels/testing/rope_table.h"
#include "cuda/kernels/testing/rows.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

const double kLargestBf16 = std::exp2(127) * (2 - std::exp2(-7));
const double kLargestF32 = static_cast<double>(std::numeric_limits<float>::max());
const double kInfinity = std::numeric_limits<double>::infinity();

/// A bf16 matrix whose rows have one entry each, in column 0 of 32.
struct OneColumn {
  explicit OneColumn(const std::vector<double>& entries)
      : rows(rows_of_values<__nv_bfloat16>(static_cast<int>(entries.size()), 32, padded(entries))),
        view{.data = rows.device.data(), .rows = rows.rows, .cols = 32, .stride = 32} {}

  static std::vector<double> padded(const std::vector<double>& entries) {
    std::vector<double> values(entries.size() * 32, 0.0);
    for (std::size_t i = 0; i < entries.size(); ++i) values[32 * i] = entries[i];
    return values;
  }

  Rows<__nv_bfloat16> rows;
  WeightView view;
};

TEST(LargestValues, ProductsOfBf16) {
  const OneColumn weight({0.5, 1.0, -1.0, 2.0, -2.0});
  const auto x = rows_of_values<__nv_bfloat16>(1, 32, OneColumn::padded({kLargestBf16}));
  for (auto* const kernel : {linear_streamed, linear_tiled}) {
    const auto y = rows_for<float>(1, 5);
    Linear p{.tokens = 1, .x = x.device.data(), .x_stride = 32, .segments = 1, .segment = {}};
    p.segment[0] = {.weight = weight.view, .y_f32 = y.data(), .y_stride = 8};
    kernel(nullptr, p);
    EXPECT_TRUE(
        all_close(read_rows(y, 1, 5), {kLargestBf16 / 2, kLargestBf16, -kLargestBf16, kInfinity, -kInfinity}, 0, 0));
  }
}

TEST(LargestValues, ProductsOfFloat32Weights) {
  const auto weight = rows_of_values<float>(3, 1, {kLargestF32, -kLargestF32, kLargestF32 / 2});
  const auto x = rows_of_values<__nv_bfloat16>(2, 1, {1.0, 2.0});
  const auto y = rows_for<float>(2, 3);
  linear_f32(nullptr,
             {.tokens = 2, .rows = 3, .cols = 1, .x = x.device.data(), .weight = weight.device.data(), .y = y.data()});
  EXPECT_TRUE(all_close(read_rows(y, 2, 3),
                        {kLargestF32, -kLargestF32, kLargestF32 / 2, kInfinity, -kInfinity, kLargestF32}, 0, 0));
}

/// The clamp makes what overflowed finite again; the most negative gate closes.
TEST(LargestValues, ClampedSwiGlu) {
  const OneColumn gate({kLargestBf16, 4.0, -1.0, -0.5});
  const OneColumn up({kLargestBf16, -kLargestBf16, kLargestBf16, 1.0});
  const auto x = rows_of_values<__nv_bfloat16>(1, 32, OneColumn::padded({kLargestBf16}));
  const double open = 10.0 / (1 + std::exp(-10.0)) * 10.0;
  for (const bool tiled : {false, true}) {
    const auto act = rows_for<__nv_bfloat16>(1, 4);
    const ExpertsUp p{
        .tokens = 1, .x = x.device.data(), .gate = gate.view, .up = up.view, .limit = 10.0f, .act = act.data()};
    tiled ? experts_up_tiled(nullptr, p) : experts_up_streamed(nullptr, p);
    EXPECT_TRUE(all_close(read_rows(act, 1, 4), {open, -open, 0.0, 0.0}, kBf16, 0));
  }
}

/// float32 squares overflow beyond 1.8e19, for LibTorch too: such rows become zeros, never NaN.
TEST(LargestValues, NormsOfRowsWhoseSquaresOverflow) {
  const auto x = rows_of_values<__nv_bfloat16>(2, 3, {kLargestBf16, -kLargestBf16, 1.0, 1e18, -1e18, 1e18});
  const auto weight = rows_of_values<float>(1, 3, {1.0, 1.0, 1.0});
  const auto y = rows_for<__nv_bfloat16>(2, 3);
  add_rms_norm(
      nullptr,
      {.rows = 2, .width = 3, .x = x.device.data(), .weight = weight.device.data(), .eps = 1e-5f, .y = y.data()});
  EXPECT_TRUE(all_close(read_rows(y, 2, 3), {0.0, 0.0, 0.0, 1.0, -1.0, 1.0}, kBf16, 0));
}

TEST(LargestValues, SumsOfExpertsAndResiduals) {
  const auto y = rows_of_values<float>(2, 2, {kLargestBf16, 1.0, -kLargestBf16, 1.0});
  const auto residual = rows_of_values<__nv_bfloat16>(2, 2, {0.0, 0.0, kLargestBf16, -1.0});
  const auto norm = rows_of_values<float>(1, 2, {1.0, 1.0});
  const auto places = buffer_of<std::int32_t>({0, 1});
  const auto weights = buffer_of<float>({1.0f, 1.0f});
  const auto residual2 = rows_for<__nv_bfloat16>(2, 2);
  const auto normed = rows_for<__nv_bfloat16>(2, 2);
  combine_experts(nullptr, {.tokens = 2,
                            .top_k = 1,
                            .width = 2,
                            .y = y.device.data(),
                            .places = places.data(),
                            .weights = weights.data(),
                            .residual = residual.device.data(),
                            .norm = norm.device.data(),
                            .eps = 1e-5f,
                            .residual2 = residual2.data(),
                            .normed = normed.data()});
  EXPECT_TRUE(all_close(read_rows(residual2, 2, 2), {kLargestBf16, 1.0, 0.0, 0.0}, 0, 0));
  EXPECT_TRUE(all_close(read_rows(normed, 2, 2), {0.0, 0.0, 0.0, 0.0}, 0, 0));
}

TEST(LargestValues, OutputGatesThatAreFullyOpenOrClosed) {
  const auto attention = rows_of_values<__nv_bfloat16>(1, 3, {kLargestBf16, kLargestBf16, -kLargestBf16});
  const auto gate = rows_of_values<__nv_bfloat16>(1, 3, {kLargestBf16, -kLargestBf16, 0.0});
  const auto gated = rows_for<__nv_bfloat16>(1, 3);
  output_gate(nullptr, {.tokens = 1,
                        .heads = 1,
                        .value_dims = 3,
                        .attention = attention.device.data(),
                        .gate = gate.device.data(),
                        .gated = gated.data()});
  EXPECT_TRUE(all_close(read_rows(gated, 1, 3), {kLargestBf16, 0.0, -kLargestBf16 / 2}, 0, 0));
}

/// A row's power-of-two scale takes its largest entry to at most 448, E4M3's largest.
TEST(LargestValues, QuantisedIndexQueries) {
  const int dims = 4;
  const auto q = rows_of_values<__nv_bfloat16>(1, dims, {kLargestBf16, -kLargestBf16, 0.0, 0.0});
  const auto raw = rows_of_values<float>(1, 1, {1.0});
  const TestRope table(2, false, 1e4);
  const auto position = buffer_of<std::int32_t>({0});
  const Buffer<__nv_bfloat16> queries(index_stride(dims));
  const auto weights = rows_for<float>(1, 1);
  const auto head_weights = rows_for<float>(1, 1);
  index_query(nullptr, {.tokens = 1,
                        .heads = 1,
                        .dims = dims,
                        .q = q.device.data(),
                        .raw_weights = raw.device.data(),
                        .weight_scale = 1.0f,
                        .positions = position.data(),
                        .rope = table.table,
                        .fp8 = true,
                        .queries = queries.data(),
                        .weights = weights.data(),
                        .head_weights = head_weights.data()});
  const double scale = read_rows(head_weights, 1, 1)[0];
  EXPECT_EQ(scale, std::exp2(120));
  EXPECT_TRUE(all_close(read_rows(queries, 1, dims, index_stride(dims)), {256.0, -256.0, 0.0, 0.0}, 0, 0));
}

TEST(LargestValues, LogitsAtBothEndsOfFloat32) {
  const auto logits =
      rows_of_values<float>(2, 3, {-kLargestF32, kLargestF32, 0.0, -kLargestF32, -kLargestF32, -kInfinity});
  const Buffer<float> probabilities(6);
  softmax(
      nullptr,
      {.rows = 2, .width = 3, .logits = logits.device.data(), .temperature = 1, .probabilities = probabilities.data()});
  EXPECT_TRUE(all_close(read_rows(probabilities, 2, 3, 3), {0.0, 1.0, 0.0, 0.5, 0.5, 0.0}, 0, 0));
  const auto keys = buffer_of<unsigned long long>({0, 0});
  argmax(nullptr, {.rows = 2, .width = 3, .logits = logits.device.data(), .keys = keys.data()});
  EXPECT_EQ(argmax_of(keys.download(nullptr)[0]), 1);
  EXPECT_EQ(argmax_of(keys.download(nullptr)[1]), 0);
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
