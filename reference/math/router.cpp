#include "reference/math/router.h"

#include <algorithm>
#include <limits>
#include <span>

#include "reference/math/activation.h"
#include "reference/math/topk.h"

namespace mtpcheck {
namespace {

template <class S>
void mask_other_groups(std::span<S> scores, ExpertGroups groups) {
  const std::size_t size = scores.size() / groups.groups;
  std::vector<S> best(groups.groups);
  for (std::size_t g = 0; g < groups.groups; ++g) {
    const auto group = scores.subspan(g * size, size);
    const auto two = largest(std::span<const S>(group), 2);
    for (const auto expert : two) best[g] += group[static_cast<std::size_t>(expert)];
  }
  const auto kept = largest(std::span<const S>(best), groups.used);
  for (std::size_t g = 0; g < groups.groups; ++g) {
    if (std::ranges::binary_search(kept, static_cast<std::int32_t>(g))) continue;
    std::ranges::fill(scores.subspan(g * size, size), -std::numeric_limits<S>::infinity());
  }
}

}  // namespace

template <class S>
Rows<S> selection_scores(const Rows<S>& logits, const Vector& bias, ExpertGroups groups) {
  Rows<S> scores = logits.unaryExpr([](S x) { return sigmoid(x); });
  for (Eigen::Index t = 0; t < scores.rows(); ++t) {
    for (std::size_t e = 0; e < bias.size(); ++e) scores(t, e) += static_cast<S>(bias[e]);
    if (groups.groups > 1) {
      mask_other_groups(std::span<S>(scores.data() + t * scores.cols(), static_cast<std::size_t>(scores.cols())),
                        groups);
    }
  }
  return scores;
}

template <class S>
ExpertChoice choose_experts(const Rows<S>& scores, std::size_t count) {
  ExpertChoice choice;
  const auto experts = static_cast<std::size_t>(scores.cols());
  for (Eigen::Index t = 0; t < scores.rows(); ++t) {
    choice.push_back(largest(std::span<const S>(scores.data() + t * scores.cols(), experts), count));
  }
  return choice;
}

template <class S>
Rows<S> expert_weights(const Rows<S>& logits, const ExpertChoice& experts, bool normalise, double factor) {
  const std::size_t count = experts.empty() ? 0 : experts.front().size();
  Rows<S> weights(logits.rows(), static_cast<Eigen::Index>(count));
  for (Eigen::Index t = 0; t < logits.rows(); ++t) {
    S sum = 0;
    for (std::size_t k = 0; k < count; ++k) sum += weights(t, k) = sigmoid(logits(t, experts[t][k]));
    if (normalise) weights.row(t) /= sum + static_cast<S>(1e-20);
    weights.row(t) *= static_cast<S>(factor);
  }
  return weights;
}

template Rows<float> selection_scores(const Rows<float>&, const Vector&, ExpertGroups);
template Rows<double> selection_scores(const Rows<double>&, const Vector&, ExpertGroups);
template ExpertChoice choose_experts(const Rows<float>&, std::size_t);
template ExpertChoice choose_experts(const Rows<double>&, std::size_t);
template Rows<float> expert_weights(const Rows<float>&, const ExpertChoice&, bool, double);
template Rows<double> expert_weights(const Rows<double>&, const ExpertChoice&, bool, double);

}  // namespace mtpcheck
