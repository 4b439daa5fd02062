#include "cuda/head/cuda_head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "golden/cases/forward_case.h"
#include "reference/head/reference_head.h"
#include "reference/head/stages/stage_inputs.h"
#include "reference/model/conventions.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

using golden::ForwardCase;
using golden::KeepingSink;
using golden::Tensors;

const std::filesystem::path kForward = std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "forward";

Conventions preset(const std::string& name) { return resolve_conventions({}, name, {}).values; }

/// The selections a run made, as what another run can be forced to.
Selections selections_of(const Tensors& stages, std::size_t sequences) {
  Selections forced;
  const auto append = [](const Tensor& tensor, std::vector<std::vector<std::int32_t>>& rows) {
    const auto values = to_i64(tensor.view());
    const std::size_t width = tensor.shape[1];
    for (std::size_t r = 0; r < tensor.shape[0]; ++r) {
      std::vector<std::int32_t> row;
      for (std::size_t i = 0; i < width; ++i) {
        if (values[r * width + i] >= 0) row.push_back(static_cast<std::int32_t>(values[r * width + i]));
      }
      rows.push_back(row);
    }
  };
  if (sequences == 1 && stages.contains("topk_indices")) append(stages.at("topk_indices"), forced.topk_indices);
  for (std::size_t s = 0; sequences > 1 && s < sequences; ++s) {
    append(stages.at("topk_indices.seq" + std::to_string(s)), forced.topk_indices);
  }
  if (stages.contains("topk_experts")) append(stages.at("topk_experts"), forced.topk_experts);
  return forced;
}

double rms(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) {  // −∞ masks included
      ++count;
      continue;
    }
    sum += (a[i] - b[i]) * (a[i] - b[i]);
    ++count;
  }
  return count == 0 ? 0.0 : std::sqrt(sum / static_cast<double>(count));
}

double magnitude(const std::vector<double>& a) {
  double sum = 0;
  for (double v : a) sum += std::isfinite(v) ? v * v : 0.0;
  return a.empty() ? 0.0 : std::sqrt(sum / static_cast<double>(a.size()));
}

/// docs/tolerance.md: twice the error of a reference that rounds as bf16 engines do, and four units in the last place.
void expect_within_policy(const Tensors& ours, const Tensors& truth, const Tensors& rounded, const std::string& what) {
  for (const auto& [name, value] : ours) {
    const Stage stage = stage_key_from_name(name).value().stage;
    if (info(stage).kind != StageKind::values) continue;
    ASSERT_TRUE(truth.contains(name)) << what << " " << name;
    const Tensor& exact = truth.at(name);
    ASSERT_EQ(value.shape, exact.shape) << what << " " << name;
    const auto a = to_f64(value.view());
    const auto t = to_f64(exact.view());
    const auto r = to_f64(rounded.at(name).view());
    const double allowance = 2 * rms(r, t) + 4 * magnitude(t) / 256;
    EXPECT_LE(rms(a, t), allowance) << what << " " << name;
  }
}

void check_case(const ForwardCase& from, const Conventions& conventions, std::size_t step, const std::string& what) {
  CudaHead head(from.config, from.weights, conventions);
  KeepingSink ours;
  const HeadInput input = from.input(step);
  head.forward(input, {}, ours);
  EXPECT_EQ(ours.stages.size(), [&] {
    KeepingSink all;
    make_reference_head(from.config, from.weights, conventions)->forward(input, {}, all);
    return all.stages.size();
  }()) << what;
  const Selections forced = selections_of(ours.stages, input.sequences());
  const auto run = [&](Precision precision) {
    KeepingSink sink;
    make_reference_head(from.config, from.weights, conventions, {.precision = precision})
        ->forward(input, {.forced = &forced}, sink);
    return sink.stages;
  };
  expect_within_policy(ours.stages, run(Precision::f64), run(Precision::bf16), what);
}

class OracleCases : public ::testing::TestWithParam<std::string> {};

TEST_P(OracleCases, EveryStageIsWithinThePolicy) {
  const auto from = golden::read_forward_case(kForward, GetParam());
  const std::size_t steps = from.inputs.contains("step1.input_ids") ? 2 : 1;
  for (const std::string dialect : {"vllm", "transformers"}) {
    for (std::size_t step = 0; step < steps; ++step) {
      check_case(from, preset(dialect), step, dialect + ", step " + std::to_string(step));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forward, OracleCases, ::testing::ValuesIn(golden::forward_cases(kForward)),
                         [](const auto& one) { return one.param; });

TEST(CudaHead, QuantisedIndexer) {
  auto conventions = preset("vllm");
  conventions.indexer_fp8 = true;
  check_case(golden::read_forward_case(kForward, "fp8_indexer"), conventions, 0, "fp8");
}

TEST(CudaHead, PositionZeroMaskIsAConvention) {
  auto conventions = preset("vllm");
  conventions.position_zero_mask = false;
  check_case(golden::read_forward_case(kForward, "packed"), conventions, 0, "no mask");
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
