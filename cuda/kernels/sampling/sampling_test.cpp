#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/kernels/sampling/advance.h"
#include "cuda/kernels/sampling/argmax.h"
#include "cuda/kernels/sampling/softmax.h"
#include "cuda/kernels/sampling/verification.h"
#include "cuda/kernels/testing/close.h"
#include "cuda/kernels/testing/rows.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

std::vector<std::int32_t> argmax_rows(const Rows<float>& logits) {
  const auto keys = buffer_of(std::vector<unsigned long long>(logits.rows, 0));
  argmax(nullptr, {.rows = logits.rows, .width = logits.width, .logits = logits.device.data(), .keys = keys.data()});
  std::vector<std::int32_t> out;
  for (const auto key : keys.download(nullptr)) out.push_back(argmax_of(key));
  return out;
}

TEST(Argmax, FirstLargestOfRowsOfAllWidths) {
  Random random(1);
  for (const auto& [rows, width] : {std::pair{1, 1}, {3, 97}, {5, 288}, {2, 4096}, {2, 4097}, {1, 20000}}) {
    auto logits = random_rows<float>(random, rows, width);
    for (double& v : logits.values) v = std::round(v * 4);  // many ties
    logits = rows_of_values<float>(rows, width, logits.values);
    std::vector<std::int32_t> expected;
    for (int r = 0; r < rows; ++r) {
      int best = 0;
      for (int i = 1; i < width; ++i) {
        if (logits.at(r, i) > logits.at(r, best)) best = i;
      }
      expected.push_back(best);
    }
    EXPECT_EQ(argmax_rows(logits), expected) << rows << " x " << width;
  }
}

TEST(Argmax, NegativeZeroInfinitiesAndNan) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto logits = rows_of_values<float>(4, 3,
                                            {-0.0, 0.0, -1.0,                  //
                                             -infinity, -infinity, -infinity,  //
                                             1.0, infinity, infinity,          //
                                             infinity, nan, nan});
  EXPECT_EQ(argmax_rows(logits), (std::vector<std::int32_t>{0, 0, 1, 1}));
}

TEST(AdvanceDraft, ChosenTokensBecomeInputs) {
  const auto keys = buffer_of<unsigned long long>({0xFFFFFFFFu - 7u, 0xFFFFFFFFu - 9u});
  const auto drafts = buffer_of<std::int32_t>({-1, -1, -1, -1, -1, -1});
  const auto ids = buffer_of<std::int32_t>({0, 0});
  const auto positions = buffer_of<std::int32_t>({5, 6});
  const auto rows = buffer_of<std::int32_t>({10, 20});
  const auto counts = buffer_of<std::int32_t>({3, 4});
  advance_draft(nullptr, {.sequences = 2,
                          .step = 1,
                          .steps = 3,
                          .keys = keys.data(),
                          .drafts = drafts.data(),
                          .ids = ids.data(),
                          .positions = positions.data(),
                          .cache_rows = rows.data(),
                          .key_counts = counts.data()});
  EXPECT_EQ(drafts.download(nullptr), (std::vector<std::int32_t>{-1, 7, -1, -1, 9, -1}));
  EXPECT_EQ(ids.download(nullptr), (std::vector<std::int32_t>{7, 9}));
  EXPECT_EQ(positions.download(nullptr), (std::vector<std::int32_t>{6, 7}));
  EXPECT_EQ(rows.download(nullptr), (std::vector<std::int32_t>{11, 21}));
  EXPECT_EQ(counts.download(nullptr), (std::vector<std::int32_t>{4, 5}));
  EXPECT_EQ(keys.download(nullptr), (std::vector<unsigned long long>{0, 0}));
}

TEST(Softmax, AgreesWithTheDefinition) {
  Random random(2);
  for (const auto& [rows, width] : {std::pair{1, 1}, {3, 97}, {2, 5000}}) {
    for (const float temperature : {1.0f, 0.05f, 3.0f}) {
      auto logits = random_rows<float>(random, rows, width, 30.0);
      if (width > 2) logits.values[1] = -std::numeric_limits<double>::infinity();
      logits = rows_of_values<float>(rows, width, logits.values);
      const Buffer<float> probabilities(static_cast<std::size_t>(rows) * width);
      softmax(nullptr, {.rows = rows,
                        .width = width,
                        .logits = logits.device.data(),
                        .temperature = temperature,
                        .probabilities = probabilities.data()});
      std::vector<double> expected;
      for (int r = 0; r < rows; ++r) {
        double top = -std::numeric_limits<double>::infinity();
        for (int i = 0; i < width; ++i) top = std::max(top, logits.at(r, i));
        double sum = 0;
        for (int i = 0; i < width; ++i) sum += std::exp((logits.at(r, i) - top) / static_cast<double>(temperature));
        for (int i = 0; i < width; ++i) {
          expected.push_back(std::exp((logits.at(r, i) - top) / static_cast<double>(temperature)) / sum);
        }
      }
      EXPECT_TRUE(all_close(read_rows(probabilities, rows, width, width), expected, 2e-4, 1e-30)) << width;
    }
  }
}

struct Verified {
  std::vector<std::int32_t> tokens;
  int accepted = 0;
};

/// By the definition, in float64.
Verified verify(const std::vector<std::int32_t>& drafts, const std::vector<std::vector<double>>& target,
                const std::vector<std::vector<double>>& draft, const std::vector<float>& uniforms) {
  Verified out;
  const std::size_t steps = drafts.size();
  while (out.accepted < static_cast<int>(steps)) {
    const std::size_t k = static_cast<std::size_t>(out.accepted);
    const double q = draft.empty() ? 1.0 : draft[k][drafts[k]];
    if (!(static_cast<double>(uniforms[2 * k]) * q < target[k][drafts[k]])) break;
    out.tokens.push_back(drafts[k]);
    ++out.accepted;
  }
  const auto k = static_cast<std::size_t>(out.accepted);
  std::vector<double> weights = target[k];
  for (std::size_t i = 0; k < steps && i < weights.size(); ++i) {
    const double q = draft.empty() ? (static_cast<int>(i) == drafts[k] ? 1.0 : 0.0) : draft[k][i];
    weights[i] = std::max(0.0, weights[i] - q);
  }
  double total = 0;
  for (double w : weights) total += w;
  const double goal = total * static_cast<double>(uniforms[k < steps ? 2 * k + 1 : 2 * steps]);
  double running = 0;
  std::size_t token = 0;
  while (token + 1 < weights.size() && !((running += weights[token]) > goal)) ++token;
  out.tokens.push_back(static_cast<std::int32_t>(token));
  out.tokens.resize(steps + 1, -1);
  return out;
}

std::vector<double> random_distribution(Random& random, int width, double sharpness) {
  std::normal_distribution<double> normal;
  std::vector<double> values;
  double sum = 0;
  for (int i = 0; i < width; ++i) {
    values.push_back(i % 5 == 4 ? 0.0 : std::exp(sharpness * normal(random)));
    sum += values.back();
  }
  for (double& v : values) v = static_cast<double>(static_cast<float>(v / sum));
  return values;
}

TEST(RejectionSampling, AgreesWithTheDefinition) {
  Random random(3);
  std::uniform_real_distribution<float> uniform;
  for (const bool with_draft : {true, false}) {
    for (const auto& [sequences, steps, vocabulary] :
         {std::tuple{40, 3, 97}, {1, 1, 2}, {8, 5, 1200}, {3, 2, 33}, {4, 0, 50}}) {
      std::vector<std::int32_t> drafts;
      std::vector<float> target;
      std::vector<float> draft;
      std::vector<float> uniforms;
      std::vector<std::int32_t> expected_tokens;
      std::vector<std::int32_t> expected_accepted;
      for (int s = 0; s < sequences; ++s) {
        std::vector<std::vector<double>> p;
        std::vector<std::vector<double>> q;
        std::vector<std::int32_t> own;
        for (int k = 0; k <= steps; ++k) p.push_back(random_distribution(random, vocabulary, 1.0));
        for (int k = 0; k < steps; ++k) {
          q.push_back(random_distribution(random, vocabulary, 1.0));
          for (std::size_t i = 0; i < q.back().size(); ++i) {  // near p, so that some are accepted
            q.back()[i] = static_cast<double>(static_cast<float>(0.2 * q.back()[i] + 0.8 * p[k][i]));
          }
          int token = draw(random, 0, vocabulary - 1);
          while (q.back()[token] == 0) token = draw(random, 0, vocabulary - 1);
          own.push_back(token);
        }
        std::vector<float> u;
        for (int i = 0; i <= 2 * steps; ++i) u.push_back(uniform(random));
        const Verified v = verify(own, p, with_draft ? q : std::vector<std::vector<double>>{}, u);
        expected_tokens.insert(expected_tokens.end(), v.tokens.begin(), v.tokens.end());
        expected_accepted.push_back(v.accepted);
        drafts.insert(drafts.end(), own.begin(), own.end());
        uniforms.insert(uniforms.end(), u.begin(), u.end());
        for (const auto& row : p) target.insert(target.end(), row.begin(), row.end());
        for (const auto& row : q) draft.insert(draft.end(), row.begin(), row.end());
      }
      const auto device_drafts = buffer_of(drafts);
      const auto device_target = buffer_of(target);
      const auto device_draft = buffer_of(draft);
      const auto device_uniforms = buffer_of(uniforms);
      const Buffer<std::int32_t> tokens(static_cast<std::size_t>(sequences) * (steps + 1));
      const Buffer<std::int32_t> accepted(sequences);
      rejection_sampling(nullptr, {.sequences = sequences,
                                   .steps = steps,
                                   .vocabulary = vocabulary,
                                   .drafts = device_drafts.data(),
                                   .target = device_target.data(),
                                   .draft = with_draft ? device_draft.data() : nullptr,
                                   .uniforms = device_uniforms.data(),
                                   .tokens = tokens.data(),
                                   .accepted = accepted.data()});
      EXPECT_EQ(accepted.download(nullptr), expected_accepted) << vocabulary;
      EXPECT_EQ(tokens.download(nullptr), expected_tokens) << vocabulary;
    }
  }
}

/// Whatever q is, tokens are distributed as p: accepted drafts and replacements together.
TEST(RejectionSampling, TokensAreTheTargets) {
  Random random(4);
  const std::vector<double> p{0.5, 0.1, 0.0, 0.4};
  const std::vector<double> q{0.1, 0.6, 0.2, 0.1};
  const int sequences = 4000;
  std::discrete_distribution<int> from_q(q.begin(), q.end());
  std::uniform_real_distribution<float> uniform;
  std::vector<std::int32_t> drafts;
  std::vector<float> target;
  std::vector<float> draft;
  std::vector<float> uniforms;
  for (int s = 0; s < sequences; ++s) {
    drafts.push_back(from_q(random));
    for (int row = 0; row < 2; ++row) {
      for (double v : p) target.push_back(static_cast<float>(v));
    }
    for (double v : q) draft.push_back(static_cast<float>(v));
    for (int i = 0; i < 3; ++i) uniforms.push_back(uniform(random));
  }
  const auto device_drafts = buffer_of(drafts);
  const auto device_target = buffer_of(target);
  const auto device_draft = buffer_of(draft);
  const auto device_uniforms = buffer_of(uniforms);
  const Buffer<std::int32_t> tokens(2 * sequences);
  const Buffer<std::int32_t> accepted(sequences);
  rejection_sampling(nullptr, {.sequences = sequences,
                               .steps = 1,
                               .vocabulary = 4,
                               .drafts = device_drafts.data(),
                               .target = device_target.data(),
                               .draft = device_draft.data(),
                               .uniforms = device_uniforms.data(),
                               .tokens = tokens.data(),
                               .accepted = accepted.data()});
  std::vector<double> counts(4, 0.0);
  const auto result = tokens.download(nullptr);
  for (int s = 0; s < sequences; ++s) counts[result[2 * s]] += 1.0;
  for (int i = 0; i < 4; ++i) {  // five standard deviations
    EXPECT_NEAR(counts[i] / sequences, p[i], 5 * std::sqrt(p[i] * (1 - p[i]) / sequences) + 1e-12) << i;
  }
  double rate = 0;
  for (int a : accepted.download(nullptr)) rate += a;
  EXPECT_NEAR(rate / sequences, 0.1 + 0.1 + 0.0 + 0.1, 5 * std::sqrt(0.3 * 0.7 / sequences));
}

TEST(GreedyVerification, StopsAtTheFirstDifference) {
  const auto key = [](std::uint32_t token) { return 0xFFFFFFFFull - token; };
  const auto drafts = buffer_of<std::int32_t>({1, 2, 3, 4, 9, 6});
  const auto target = buffer_of<unsigned long long>({key(1), key(2), key(3), key(7), key(4), key(5), key(6), key(8)});
  const Buffer<std::int32_t> tokens(8);
  const Buffer<std::int32_t> accepted(2);
  greedy_verification(nullptr, {.sequences = 2,
                                .steps = 3,
                                .drafts = drafts.data(),
                                .target_keys = target.data(),
                                .tokens = tokens.data(),
                                .accepted = accepted.data()});
  EXPECT_EQ(tokens.download(nullptr), (std::vector<std::int32_t>{1, 2, 3, 7, 4, 5, -1, -1}));
  EXPECT_EQ(accepted.download(nullptr), (std::vector<std::int32_t>{3, 1}));
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
