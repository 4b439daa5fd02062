// Mistakes in sampling, in what is counted, and in how tensors are compared. Each function makes the mistake and says
// whether the project's own check sees it: the distribution test, the reader's error, the counting rule, the
// comparison.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/acceptance/statistics/bootstrap.h"
#include "harness/acceptance/statistics/engine_metrics.h"
#include "harness/faults/catalogue/fault.h"
#include "harness/parity/stage/stage_errors.h"
#include "reference/protocol/distribution.h"
#include "reference/protocol/verification.h"
#include "reference/random/philox.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

const Distribution kTarget{0.5, 0.2, 0.1, 0.15, 0.05};
const Distribution kDraft{0.1, 0.1, 0.6, 0.1, 0.1};

// χ² of emitted tokens against the target's distribution; the limit is its 1e-6 quantile for 4 degrees of freedom.
constexpr double kLimit = 33.4;

template <class Emit>
double chi_square(Emit emit) {
  constexpr std::size_t kDraws = 40000;
  std::vector<double> counts(kTarget.size(), 0.0);
  for (std::size_t i = 0; i < kDraws; ++i) counts[emit(RandomStream(5, i))] += 1;
  double sum = 0;
  for (std::size_t token = 0; token < counts.size(); ++token) {
    const double expected = kTarget[token] * kDraws;
    sum += (counts[token] - expected) * (counts[token] - expected) / expected;
  }
  return sum;
}

// One draft and its verification, as verify_by_rejection does it, with the acceptance ratio, the distribution after a
// rejection and the distribution that the draft is drawn from as parameters.
template <class Ratio>
double chi_square_of(Ratio ratio, bool with_residual, const Distribution& drawn_from) {
  return chi_square([&](const RandomStream& stream) {
    const std::size_t draft = sample(drawn_from, stream.uniform(0));
    if (stream.uniform(1) < ratio(kTarget[draft], kDraft[draft])) return draft;
    return sample(with_residual ? *residual(kTarget, kDraft) : kTarget, stream.uniform(2));
  });
}

double right_ratio(double p, double q) { return std::min(1.0, p / q); }

template <class Action>
bool refuses(Action action) {
  try {
    action();
  } catch (const Error&) {
    return true;
  }
  return false;
}

// Errors of a stage of `candidate` against a truth of sines, with rounding noise of 1e-8.
reports::ErrorRecord compared(const std::vector<float>& candidate, const std::vector<double>& truth) {
  const Shape shape{8, truth.size() / 8};
  std::vector<float> rounded(truth.size());
  for (std::size_t i = 0; i < truth.size(); ++i) rounded[i] = static_cast<float>(truth[i]);
  const Tensor a = tensor_of<float>(shape, candidate);
  const Tensor b = tensor_of<double>(shape, truth);
  const Tensor c = tensor_of<float>(shape, rounded);
  return stage_errors(Stage::o_proj, a.view(), b.view(), noise_of(Stage::o_proj, c.view(), b.view()), {}).record;
}

std::vector<double> sines(double scale) {
  std::vector<double> values(8 * 64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * std::sin(static_cast<double>(i) + 1);
  return values;
}

std::vector<float> narrowed(const std::vector<double>& values) { return {values.begin(), values.end()}; }

constexpr std::array kMetricFaults{
    Fault{.id = "ratio-inverted",
          .row = "S01",
          .kind = FaultKind::metric,
          .what = "drafts accepted with min(1, q/p)",
          .source = "DeepSpec#31",
          .caught_by = Catcher::accept,
          .where = "output distribution",
          .metric =
              [] {
                return chi_square_of([](double p, double q) { return std::min(1.0, q / p); }, true, kDraft) > kLimit;
              }},
    Fault{.id = "residual-forgotten",
          .row = "S01",
          .kind = FaultKind::metric,
          .what = "after a rejection the target is sampled, not the residual",
          .source = "vllm#41044",
          .caught_by = Catcher::accept,
          .where = "output distribution",
          .metric = [] { return chi_square_of(right_ratio, false, kDraft) > kLimit; }},
    Fault{.id = "other-draft-distribution",
          .row = "S01",
          .kind = FaultKind::metric,
          .what = "drafts drawn from another distribution than q",
          .source = "vllm#41044",
          .caught_by = Catcher::accept,
          .where = "output distribution",
          .metric =
              [] {
                return chi_square_of(right_ratio, true, {0.2, 0.2, 0.2, 0.2, 0.2}) > kLimit;
              }},
    Fault{.id = "impossible-draft",
          .row = "S01",
          .kind = FaultKind::metric,
          .what = "a draft that has probability 0 under its q",
          .source = "vllm#41044",
          .caught_by = Catcher::accept,
          .where = "error",
          .metric =
              [] {
                return refuses([] {
                  verify_by_rejection(std::vector<std::int64_t>{0}, std::vector<Distribution>{{0.5, 0.5}, {0.5, 0.5}},
                                      std::vector<Distribution>{{0.0, 1.0}}, [](std::size_t) { return 0.5; });
                });
              }},
    Fault{.id = "token-beyond-vocabulary",
          .row = "S02",
          .kind = FaultKind::metric,
          .what = "a draft id beyond the vocabulary",
          .source = "vllm#53029",
          .caught_by = Catcher::accept,
          .where = "error",
          .metric =
              [] {
                return refuses([] {
                  verify_deterministic_drafts(std::vector<std::int64_t>{9},
                                              std::vector<Distribution>{{0.5, 0.5}, {0.5, 0.5}},
                                              [](std::size_t) { return 0.5; });
                });
              }},
    Fault{.id = "nan-row",
          .row = "S02",
          .kind = FaultKind::metric,
          .what = "a row of logits with a NaN",
          .source = "vllm#53029",
          .caught_by = Catcher::accept,
          .where = "error",
          .metric = [] { return refuses([] {
                           distribution(std::vector<float>{0.0F, std::nanf(""), 1.0F});
                         }); }},
    Fault{.id = "all-masked-row",
          .row = "S02",
          .kind = FaultKind::metric,
          .what = "a row of logits of -inf only",
          .source = "vllm#53029",
          .caught_by = Catcher::accept,
          .where = "error",
          .metric =
              [] {
                constexpr float kMasked = -std::numeric_limits<float>::infinity();
                return refuses([] { distribution(std::vector<float>{kMasked, kMasked}); });
              }},
    Fault{.id = "drafts-after-the-end",
          .row = "S03",
          .kind = FaultKind::metric,
          .what = "drafts after an accepted end of sequence counted",
          .source = "vllm#56101",
          .caught_by = Catcher::accept,
          .where = "mean acceptance length",
          .metric =
              [] {
                AcceptanceCounts to_the_end;
                AcceptanceCounts beyond;
                add_step(to_the_end, 1, 1);  // the first draft was the end
                add_step(beyond, 3, 3);
                return mean_acceptance_length(beyond) > mean_acceptance_length(to_the_end);
              }},
    Fault{.id = "mean-of-ratios",
          .row = "S04",
          .kind = FaultKind::metric,
          .what = "a mean of ratios instead of a ratio of sums",
          .source = "vllm#17908",
          .caught_by = Catcher::accept,
          .where = "numerator and denominator",
          .metric =
              [] {
                const std::array<SequenceSums, 2> sequences{{{1, 1}, {0, 99}}};
                return std::fabs(ratio_of_sums(sequences) - 0.5) > 0.4;
              }},
    Fault{.id = "bonus-left-out",
          .row = "S04",
          .kind = FaultKind::metric,
          .what = "the bonus token not counted in the length",
          .source = "vllm#39359",
          .caught_by = Catcher::accept,
          .where = "mean acceptance length",
          .metric =
              [] {
                AcceptanceCounts counts;
                add_step(counts, 2, 1);
                return counts.accepted() / counts.steps != mean_acceptance_length(counts);
              }},
    Fault{.id = "nan-passes",
          .row = "C01",
          .kind = FaultKind::metric,
          .what = "a NaN that `diff > tol` lets through",
          .source = "pytorch#72194",
          .caught_by = Catcher::compare,
          .where = "o_proj",
          .metric =
              [] {
                auto candidate = narrowed(sines(1));
                candidate[100] = std::nanf("");
                return !compared(candidate, sines(1)).pass;
              }},
    Fault{.id = "nan-on-both-sides",
          .row = "C01",
          .kind = FaultKind::metric,
          .what = "NaN equal to NaN",
          .source = "llm.c",
          .caught_by = Catcher::compare,
          .where = "o_proj",
          .metric =
              [] {
                auto candidate = narrowed(sines(1));
                auto truth = sines(1);
                candidate[100] = std::nanf("");
                truth[100] = std::nan("");
                return !compared(candidate, truth).pass;
              }},
    Fault{.id = "all-zero-output",
          .row = "C02",
          .kind = FaultKind::metric,
          .what = "an all-zero output against a tiny reference",
          .source = "KernelBench#165",
          .caught_by = Catcher::compare,
          .where = "o_proj",
          .metric = [] { return !compared(std::vector<float>(8 * 64, 0.0F), sines(1e-20)).pass; }},
    Fault{.id = "zero-reference",
          .row = "C03",
          .kind = FaultKind::metric,
          .what = "a candidate that is not zero where the reference is",
          .source = "HipKittens#64",
          .caught_by = Catcher::compare,
          .where = "o_proj",
          .metric = [] { return !compared(std::vector<float>(8 * 64, 1e-3F), std::vector<double>(8 * 64, 0.0)).pass; }},
    Fault{.id = "one-broken-row",
          .row = "C04",
          .kind = FaultKind::metric,
          .what = "one broken row that a global figure hides",
          .source = "FlashMLA",
          .caught_by = Catcher::compare,
          .where = "o_proj",
          .metric =
              [] {
                auto truth = sines(1);
                for (std::size_t i = 0; i < 64; ++i) truth[i] *= 1e4;  // a large row drowns the small ones
                auto candidate = narrowed(truth);
                for (std::size_t i = 7 * 64; i < 8 * 64; ++i) candidate[i] += 1e-5F;
                const auto errors = compared(candidate, truth);
                return !errors.pass && errors.worst_row == 7;
              }},
};

}  // namespace

std::span<const Fault> metric_faults() { return kMetricFaults; }

}  // namespace mtpcheck
