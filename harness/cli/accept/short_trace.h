#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "harness/acceptance/trace/trace_file.h"
#include "harness/checkpoint/safetensors/writer.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/tool.h"

/// For tests: tiny-hy4 and the beginning of one of its traces, to be changed and written out.
namespace mtpcheck::cli {

inline const std::string kBf16 = kTiny + "/checkpoint-bf16";
inline const std::string kNatural = kTiny + "/traces/passage-00.safetensors";
inline const std::string kGreedy = kTiny + "/generated/greedy/passage-00.safetensors";
inline const std::string kSampled = kTiny + "/generated/sampled/passage-00.safetensors";

/// What a trace's file is made of, to be changed and written again.
struct TraceParts {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> positions;
  std::vector<float> hidden;
  std::vector<float> logits;
  std::size_t vocabulary = 0;

  std::size_t tokens() const { return ids.size(); }
};

/// The first tokens of a trace.
inline TraceParts beginning_of(const std::string& path, std::size_t tokens) {
  const TargetTrace trace = read_target_trace(path);
  const auto hidden = to_f32(trace.target_hidden.view());
  TraceParts parts;
  parts.vocabulary = trace.vocabulary;
  parts.ids.assign(trace.input_ids.begin(), trace.input_ids.begin() + static_cast<std::ptrdiff_t>(tokens));
  parts.positions.assign(trace.positions.begin(), trace.positions.begin() + static_cast<std::ptrdiff_t>(tokens));
  parts.hidden.assign(hidden.begin(), hidden.begin() + static_cast<std::ptrdiff_t>(tokens * 256));
  for (std::size_t i = 0; i < tokens; ++i) {
    const LogitsRow row = trace.logits_of(i);
    parts.logits.insert(parts.logits.end(), row.values().begin(), row.values().end());
  }
  return parts;
}

inline std::string write_whole(const ScratchDirectory& scratch, const std::string& name, const TraceParts& parts) {
  const Tensor ids = tensor_of<std::int64_t>({parts.tokens()}, parts.ids);
  const Tensor positions = tensor_of<std::int64_t>({parts.tokens()}, parts.positions);
  const Tensor hidden = tensor_of<float>({parts.tokens(), 256}, parts.hidden);
  const Tensor logits = tensor_of<float>({parts.tokens(), parts.vocabulary}, parts.logits);
  const auto path = (scratch.path() / name).string();
  write_safetensors(path, {ids.view("input_ids"), positions.view("positions"), hidden.view("target_hidden"),
                           logits.view("target_logits")});
  return path;
}

/// The same trace with its N largest log-probabilities alone. `remaining` is added to what is left over.
inline std::string write_top(const ScratchDirectory& scratch, const std::string& name, const TraceParts& parts,
                             std::size_t n, float remaining = 0) {
  std::vector<std::int64_t> top_ids;
  std::vector<float> values;
  std::vector<float> rest;
  for (std::size_t i = 0; i < parts.tokens(); ++i) {
    const auto row = std::span(parts.logits).subspan(i * parts.vocabulary, parts.vocabulary);
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    std::vector<std::int64_t> order(parts.vocabulary);
    for (std::size_t token = 0; token < order.size(); ++token) order[token] = static_cast<std::int64_t>(token);
    std::ranges::stable_sort(order, [&](auto a, auto b) { return row[a] > row[b]; });
    double mass = 0;
    for (std::size_t rank = 0; rank < n; ++rank) {
      const double value = static_cast<double>(row[order[rank]]) - std::log(sum);
      top_ids.push_back(order[rank]);
      values.push_back(static_cast<float>(value));
      mass += std::exp(value);
    }
    rest.push_back(static_cast<float>(1 - mass) + remaining);
  }
  const Tensor ids = tensor_of<std::int64_t>({parts.tokens()}, parts.ids);
  const Tensor positions = tensor_of<std::int64_t>({parts.tokens()}, parts.positions);
  const Tensor hidden = tensor_of<float>({parts.tokens(), 256}, parts.hidden);
  const Tensor tops = tensor_of<std::int64_t>({parts.tokens(), n}, top_ids);
  const Tensor logs = tensor_of<float>({parts.tokens(), n}, values);
  const Tensor left = tensor_of<float>({parts.tokens()}, rest);
  const auto path = (scratch.path() / name).string();
  write_safetensors(path,
                    {ids.view("input_ids"), positions.view("positions"), hidden.view("target_hidden"),
                     tops.view("top_ids"), logs.view("top_log_probabilities"), left.view("remaining_mass")},
                    {{"vocab_size", std::to_string(parts.vocabulary)}});
  return path;
}

}  // namespace mtpcheck::cli
