#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/acceptance/trace/target_trace.h"
#include "reference/model/head.h"
#include "reference/random/philox.h"

/// For tests: a target and a draft whose distributions are an arbitrary function of the whole context, over a
/// vocabulary small enough to enumerate every continuation.
namespace mtpcheck {

inline constexpr std::size_t kVocabulary = 3;

using Tokens = std::vector<std::int64_t>;

// Logits as an arbitrary but fixed function of a whole context: any wrong row in a cache changes them.
inline std::vector<float> logits_of(const Tokens& context, std::uint64_t salt) {
  std::uint64_t hash = salt;
  for (const auto token : context) hash = RandomStream(hash, static_cast<std::uint64_t>(token) + 1).bits(0);
  std::vector<float> logits(kVocabulary);
  for (std::size_t i = 0; i < kVocabulary; ++i) logits[i] = static_cast<float>(1.5 * RandomStream(hash, 99).normal(i));
  return logits;
}

inline constexpr std::uint64_t kTarget = 1;
inline constexpr std::uint64_t kDraft = 2;

// A head whose logits are `logits_of` the tokens in its cache. Its hidden state counts draft steps: 0 in a target's
// hidden state, one more in each recycled one; a chain that recycles the wrong row is an error.
class ToyHead final : public Head {
 public:
  std::string name() const override { return "toy"; }
  void reset() override { caches_.clear(); }
  void rollback(std::size_t sequence, std::size_t length) override {
    ASSERT_LE(length, caches_.at(sequence).size());
    caches_[sequence].resize(length);
  }
  void forward(const HeadInput& input, const ForwardOptions& options, StageSink& sink) override {
    caches_.resize(std::max(caches_.size(), input.sequences()));
    const auto hidden = to_f32(input.hidden_states.view());
    std::vector<float> logits;
    std::vector<float> recycled;
    for (std::size_t s = 0; s < input.sequences(); ++s) {
      for (auto i = static_cast<std::size_t>(input.cu_seqlens[s]);
           i < static_cast<std::size_t>(input.cu_seqlens[s + 1]); ++i) {
        EXPECT_EQ(input.positions[i], static_cast<std::int64_t>(caches_[s].size()));
        EXPECT_EQ(hidden[i], static_cast<float>(options.step));
        caches_[s].push_back(input.input_ids[i]);
        const auto row = logits_of(caches_[s], kDraft);
        logits.insert(logits.end(), row.begin(), row.end());
        recycled.push_back(hidden[i] + 1);
      }
    }
    const std::size_t rows = input.tokens();
    sink.record({Stage::final_layernorm, options.step, std::nullopt}, tensor_of<float>({rows, 1}, recycled).view());
    sink.record({Stage::logits, options.step, std::nullopt}, tensor_of<float>({rows, kVocabulary}, logits).view());
  }

 private:
  std::vector<Tokens> caches_;
};

// The target judges token i+1 from tokens 0 … i; the draft row i has seen tokens 1 … i+1.
inline Tokens prefix(const Tokens& tokens, std::size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
}

inline TargetTrace make_trace(const Tokens& tokens, TraceOrigin origin, std::size_t prompt_length) {
  TargetTrace trace;
  trace.name = "toy";
  trace.origin = origin;
  trace.prompt_length = prompt_length;
  trace.input_ids = tokens;
  trace.vocabulary = kVocabulary;
  std::vector<float> logits;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    trace.positions.push_back(static_cast<std::int64_t>(i));
    const auto row = logits_of(prefix(tokens, i + 1), kTarget);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  trace.target_hidden = make_tensor(Dtype::f32, {tokens.size(), 1});
  auto owned = std::make_shared<Tensor>(tensor_of<float>({tokens.size(), kVocabulary}, logits));
  trace.target_logits = owned->view("target_logits");
  trace.storage = owned;
  return trace;
}

}  // namespace mtpcheck
