// What a comparison must never do, on random stages (FAULTS C01 to C04).
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "harness/parity/metrics/error_sums.h"
#include "harness/parity/stage/stage_errors.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A stage of tokens × channels: the truth, its rounding to P, and a candidate that is another rounding as good.
struct World {
  std::size_t tokens = 0, channels = 0;
  Dtype precision = Dtype::f32;
  std::vector<double> truth, rounded, candidate;

  std::size_t elements() const { return tokens * channels; }
  reports::ErrorRecord judged() const {
    const Tensor t = tensor_of<double>({tokens, channels}, truth);
    const Tensor r = tensor_of<double>({tokens, channels}, rounded);
    const Tensor c = tensor_of<double>({tokens, channels}, candidate);
    Tolerance tolerance;
    tolerance.precision = precision;
    return stage_errors(Stage::enorm, c.view("c"), t.view("t"), noise_of(Stage::enorm, r.view("r"), t.view("t")),
                        tolerance)
        .record;
  }
};

double rounded_to(Dtype precision, double value) {
  const auto narrow = static_cast<float>(value);
  return precision == Dtype::bf16 ? round_to_bf16(narrow) : narrow;
}

/// Magnitudes from 1e-20 to 1e20, and rows that differ in it by up to a million.
World world() {
  World w;
  w.tokens = *rc::gen::inRange<std::size_t>(1, 12);
  w.channels = *rc::gen::inRange<std::size_t>(4, 24);
  w.precision = *rc::gen::element(Dtype::f32, Dtype::bf16);
  const double scale = std::pow(10.0, *rc::gen::inRange(-20, 21));
  for (std::size_t token = 0; token < w.tokens; ++token) {
    const double loud = std::pow(10.0, *rc::gen::inRange(0, 7));
    for (std::size_t channel = 0; channel < w.channels; ++channel) {
      const double value = scale * loud * (*rc::gen::inRange(100'000, 1'000'000) * 1e-6) * (channel % 2 == 0 ? 1 : -1);
      w.truth.push_back(value);
      w.rounded.push_back(rounded_to(w.precision, value));
      w.candidate.push_back(rounded_to(w.precision, value * (1 + 1e-9)));
    }
  }
  return w;
}

RC_GTEST_PROP(ParityErrors, ACandidateAsGoodAsTheRoundingPasses, ()) {
  const World w = world();
  const auto record = w.judged();
  RC_ASSERT(record.pass);
}

RC_GTEST_PROP(ParityErrors, NaNNeverPasses, ()) {  // C01
  World w = world();
  const std::size_t at = *rc::gen::inRange<std::size_t>(0, w.elements());
  const int sides = *rc::gen::inRange(1, 4);  // candidate, truth, both
  if ((sides & 1) != 0) w.candidate[at] = kNaN;
  if ((sides & 2) != 0) w.truth[at] = w.rounded[at] = kNaN;
  const auto record = w.judged();
  RC_ASSERT(!record.pass);
  RC_ASSERT(record.mask_mismatches == 1);
}

RC_GTEST_PROP(ParityErrors, AnInfinityPassesOnlyAgainstItself, ()) {  // C01
  World w = world();
  const std::size_t at = *rc::gen::inRange<std::size_t>(0, w.elements());
  const double infinity = *rc::gen::element(1, -1) * std::numeric_limits<double>::infinity();
  w.truth[at] = w.rounded[at] = w.candidate[at] = infinity;
  RC_ASSERT(w.judged().pass);
  w.candidate[at] = *rc::gen::element(-infinity, 0.0, std::numeric_limits<double>::max(), kNaN);
  RC_ASSERT(!w.judged().pass);
}

RC_GTEST_PROP(ParityErrors, AllZerosNeverPassForSomething, ()) {  // C02
  World w = world();
  w.candidate.assign(w.elements(), 0.0);
  for (double& value : w.rounded) value *= 3;  // whatever the noise allows
  const auto record = w.judged();
  RC_ASSERT(!record.pass);
  RC_ASSERT(record.cosine_distance == 1.0);
}

RC_GTEST_PROP(ParityErrors, SomethingNeverPassesForZero, ()) {  // C03
  World w = world();
  w.truth.assign(w.elements(), 0.0);
  w.rounded = w.truth;
  const auto record = w.judged();
  RC_ASSERT(!record.pass);
  RC_ASSERT(std::isinf(record.relative_l2));
  w.candidate = w.truth;
  RC_ASSERT(w.judged().pass);
}

RC_GTEST_PROP(ParityErrors, VerdictsDoNotDependOnTheUnit, ()) {  // C03
  World w = world();
  w.candidate[0] *= 1 + std::pow(2.0, -*rc::gen::inRange(1, 30));
  World scaled = w;
  const double unit = std::ldexp(1.0, *rc::gen::inRange(-30, 31));
  for (auto* values : {&scaled.truth, &scaled.rounded, &scaled.candidate}) {
    for (double& value : *values) value *= unit;
  }
  RC_ASSERT(w.judged().pass == scaled.judged().pass);
  RC_ASSERT(w.judged().allowance_used == scaled.judged().allowance_used);
}

RC_GTEST_PROP(ParityErrors, OneBrokenRowIsFoundAndNamed, ()) {  // C04
  World w = world();
  const std::size_t row = *rc::gen::inRange<std::size_t>(0, w.tokens);
  for (std::size_t i = row * w.channels; i < (row + 1) * w.channels; ++i) w.candidate[i] = -w.truth[i];
  const auto record = w.judged();
  RC_ASSERT(!record.pass);
  RC_ASSERT(record.worst_row == static_cast<std::int64_t>(row));
  RC_ASSERT(record.worst_row_used > 1);
}

/// However quiet the row, and however many and loud the others: it cannot hide behind what they err by.
RC_GTEST_PROP(ParityErrors, AQuietBrokenRowDoesNotHideAmongManyLoudOnes, ()) {  // C04
  World w;
  w.tokens = *rc::gen::inRange<std::size_t>(20, 60);
  w.channels = 8;
  const std::size_t row = *rc::gen::inRange<std::size_t>(0, w.tokens);
  const double quiet = std::pow(10.0, -*rc::gen::inRange(1, 9));
  for (std::size_t i = 0; i < w.tokens * w.channels; ++i) {
    const double value = (i / w.channels == row ? quiet : 1.0) * std::sin(static_cast<double>(3 * i + 1));
    w.truth.push_back(value);
    w.rounded.push_back(rounded_to(w.precision, value));
    w.candidate.push_back(i / w.channels == row ? 1.01 * value : rounded_to(w.precision, value));
  }
  const auto record = w.judged();
  RC_ASSERT(!record.pass);
  RC_ASSERT(record.worst_row == static_cast<std::int64_t>(row));
}

RC_GTEST_PROP(ParityErrors, OnePassGivesWhatTheDefinitionsGive, ()) {
  const World w = world();
  const Tensor truth = tensor_of<double>({w.elements()}, w.truth);
  const Tensor candidate = tensor_of<double>({w.elements()}, w.candidate);
  const ErrorSums sums = compare_values(candidate.view(), truth.view());
  double largest = 0;
  long double squares = 0;
  long double reference = 0;
  for (std::size_t i = 0; i < w.elements(); ++i) {
    const double error = w.candidate[i] - w.truth[i];
    largest = std::max(largest, std::abs(error));
    squares += static_cast<long double>(error) * error;
    reference += static_cast<long double>(w.truth[i]) * w.truth[i];
  }
  RC_ASSERT(sums.max_abs == largest);
  const auto relative = static_cast<double>(std::sqrt(squares / reference));
  RC_ASSERT(std::abs(sums.relative_l2() - relative) <= 1e-12 * relative);
}

}  // namespace
}  // namespace mtpcheck
