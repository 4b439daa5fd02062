#include "reference/protocol/verification.h"

#include <fmt/format.h>

#include <algorithm>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

void check_sizes(std::size_t drafts, std::size_t target) {
  if (target != drafts + 1) {
    throw input_error(fmt::format("{} target rows for {} drafts: {} were expected", target, drafts, drafts + 1));
  }
}

void check_token(std::int64_t token, std::size_t vocabulary) {
  if (token < 0 || static_cast<std::size_t>(token) >= vocabulary) {
    throw input_error(fmt::format("draft token {}: the vocabulary ends at {}", token, vocabulary - 1));
  }
}

}  // namespace

Verified verify_greedy(std::span<const std::int64_t> drafts, std::span<const std::int64_t> target_argmax) {
  check_sizes(drafts.size(), target_argmax.size());
  Verified result;
  while (result.accepted < drafts.size() && drafts[result.accepted] == target_argmax[result.accepted]) {
    result.tokens.push_back(drafts[result.accepted++]);
  }
  result.tokens.push_back(target_argmax[result.accepted]);
  return result;
}

Verified verify_by_rejection(std::span<const std::int64_t> drafts, std::span<const Distribution> target,
                             std::span<const Distribution> draft, const Uniforms& uniform) {
  check_sizes(drafts.size(), target.size());
  if (draft.size() != drafts.size()) {
    throw input_error(fmt::format("{} draft distributions for {} drafts", draft.size(), drafts.size()));
  }
  Verified result;
  for (std::size_t k = 0; k < drafts.size(); ++k) {
    check_token(drafts[k], target[k].size());
    const auto token = static_cast<std::size_t>(drafts[k]);
    const double p = target[k][token];
    const double q = draft[k][token];
    if (!(q > 0)) {
      throw input_error(fmt::format(
          "draft token {} has probability {} under the distribution it is said to be drawn from", token, q));
    }
    if (uniform(2 * k) < std::min(1.0, p / q)) {
      ++result.accepted;
      result.tokens.push_back(drafts[k]);
      continue;
    }
    // A rejection means p(x) < q(x), so some other token has p > q and the residual exists.
    const auto rest = residual(target[k], draft[k]);
    result.tokens.push_back(static_cast<std::int64_t>(sample(rest ? *rest : target[k], uniform(2 * k + 1))));
    return result;
  }
  result.tokens.push_back(static_cast<std::int64_t>(sample(target.back(), uniform(2 * drafts.size()))));
  return result;
}

Verified verify_deterministic_drafts(std::span<const std::int64_t> drafts, std::span<const Distribution> target,
                                     const Uniforms& uniform) {
  check_sizes(drafts.size(), target.size());
  std::vector<Distribution> one_hot;
  for (std::size_t k = 0; k < drafts.size(); ++k) {
    check_token(drafts[k], target[k].size());
    Distribution q(target[k].size(), 0.0);
    q[static_cast<std::size_t>(drafts[k])] = 1;
    one_hot.push_back(std::move(q));
  }
  return verify_by_rejection(drafts, target, one_hot, uniform);
}

}  // namespace mtpcheck
