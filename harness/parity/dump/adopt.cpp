#include "harness/parity/dump/adopt.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "harness/parity/dump/layout.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

class Adoption {
 public:
  Adoption(const ExpectedStages& expected, const std::vector<std::int64_t>& sequence_starts)
      : expected_(expected), starts_(sequence_starts) {}

  void take(const std::string& name, const DumpTensor& tensor, const MappedTensor& mapped) {
    std::vector<StageKey> keys = mapped.stages;
    for (auto& key : keys) key = as_expected(key);
    if (packed(keys.front())) return cut_by_sequence(name, tensor, keys.front(), mapped.order);
    if (keys.size() > 1) return take_apart(name, tensor, keys, mapped.order);
    const auto found = expected_.find(keys.front());
    if (found == expected_.end()) {
      adopted_.unmatched.push_back({name, "candidate", "a stage that this head does not have"});
      return;
    }
    if (key_of_later_step_over_all_rows(keys.front(), tensor, found->second)) {
      return store(name, keys.front(), last_row(name, keys.front(), tensor.ranks.front()), mapped.order);
    }
    Fitted joined_ranks = join_ranks(keys.front().stage, tensor.ranks, found->second);
    if (!joined_ranks.problem.empty()) return misfit(name, keys.front(), tensor.ranks.front(), joined_ranks.problem);
    note(name, joined_ranks);
    store(name, keys.front(), joined_ranks.tensor, mapped.order);
  }

  void unknown(const std::string& name, const Shape& shape) { unknown_.emplace_back(name, shape); }

  Adopted finish() {
    std::map<std::string, Shape> missing;
    for (const auto& [key, shape] : expected_) {
      if (!adopted_.trace.contains(key)) missing.emplace(to_string(key), shape);
    }
    for (const auto& [name, shape] : unknown_) {
      adopted_.unmatched.push_back({name, "candidate", suggestion(name, shape, missing)});
    }
    return std::move(adopted_);
  }

 private:
  /// With one sequence, "x.seq0" and "x" are the same.
  StageKey as_expected(StageKey key) const {
    if (starts_.size() == 2 && key.sequence == std::size_t{0} && !expected_.contains(key)) key.sequence.reset();
    return key;
  }

  /// A later draft step of one sequence has one row; some recordings run all rows again, of which the last is the
  /// step's.
  bool key_of_later_step_over_all_rows(const StageKey& key, const DumpTensor& tensor, const Shape& expected) const {
    const Shape& found = tensor.ranks.front().shape;
    const std::size_t rows = key.stage == Stage::attn_probs ? 1 : 0;
    return key.step > 0 && starts_.size() == 2 && tensor.ranks.size() == 1 && found.size() == expected.size() &&
           found.size() > rows && expected[rows] == 1 &&
           found[rows] == static_cast<std::size_t>(starts_.back()) + key.step;
  }

  Tensor last_row(const std::string& name, const StageKey& key, const Tensor& all) {
    const std::size_t dimension = key.stage == Stage::attn_probs ? 1 : 0;
    adopted_.notes.push_back(name + ": the last of its rows is the step's");
    return slice(all, dimension, all.shape[dimension] - 1, 1);
  }

  bool packed(const StageKey& key) const {
    return !key.sequence && !expected_.contains(key) && expected_.contains({key.stage, key.step, std::size_t{0}});
  }

  void note(const std::string& name, const Fitted& fitted) {
    if (!fitted.done.empty()) adopted_.notes.push_back(name + ": " + fitted.done);
  }

  void misfit(const std::string& name, const StageKey& key, const Tensor& tensor, const std::string& problem) {
    adopted_.notes.push_back(name + ": " + problem);
    insert(name, key, tensor);
  }

  void insert(const std::string& name, const StageKey& key, Tensor tensor) {
    const auto [at, is_new] = origin_.emplace(key, name);
    if (!is_new) {
      throw input_error(fmt::format("the dump's {} and {} both claim to be {}", at->second, name, to_string(key)));
    }
    adopted_.trace.emplace(key, std::move(tensor));
  }

  void store(const std::string& name, const StageKey& key, const Tensor& tensor,
             const std::vector<std::size_t>& order) {
    Fitted fitted = fit(key.stage, tensor, expected_.at(key), order);
    if (!fitted.problem.empty()) return misfit(name, key, tensor, fitted.problem);
    note(name, fitted);
    insert(name, key, std::move(fitted.tensor));
  }

  /// Stages side by side in the last dimension.
  void take_apart(const std::string& name, const DumpTensor& tensor, const std::vector<StageKey>& keys,
                  const std::vector<std::size_t>& order) {
    Shape whole;
    std::vector<std::size_t> widths;
    for (const auto& key : keys) {
      const auto found = expected_.find(key);
      if (found == expected_.end()) {
        adopted_.unmatched.push_back({name, "candidate", to_string(key) + " is a stage that this head does not have"});
        return;
      }
      widths.push_back(found->second.back());
      whole = found->second;
    }
    whole.back() = std::accumulate(widths.begin(), widths.end(), std::size_t{0});
    Fitted ranks = join_ranks(keys.front().stage, tensor.ranks, whole);
    const Fitted fitted = ranks.problem.empty() ? fit(keys.front().stage, ranks.tensor, whole, order) : ranks;
    if (!fitted.problem.empty()) {
      adopted_.notes.push_back(name + ": " + fitted.problem);
      return;
    }
    note(name, ranks);
    note(name, fitted);
    std::size_t first = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      insert(name, keys[i], slice(fitted.tensor, whole.size() - 1, first, widths[i]));
      first += widths[i];
    }
  }

  /// Rows of all sequences in one tensor: each sequence's rows, and of scores its own columns, which are either the
  /// first ones or the packed ones.
  void cut_by_sequence(const std::string& name, const DumpTensor& tensor, const StageKey& key,
                       const std::vector<std::size_t>& order) {
    const Tensor& all = tensor.ranks.front();
    const auto total = static_cast<std::size_t>(starts_.back());
    if (tensor.ranks.size() != 1 || all.shape.size() != 2 || all.shape.front() < total || !order.empty()) {
      adopted_.unmatched.push_back({name, "candidate", "one tensor a sequence: " + to_string(key) + ".seq0, …"});
      return;
    }
    const bool packed_columns = key.stage == Stage::indexer_scores && all.shape.back() == total;
    for (std::size_t s = 0; s + 1 < starts_.size(); ++s) {
      const StageKey own{key.stage, key.step, s};
      const auto found = expected_.find(own);
      if (found == expected_.end()) continue;
      const auto first = static_cast<std::size_t>(starts_[s]);
      Tensor rows = slice(all, 0, first, static_cast<std::size_t>(starts_[s + 1]) - first);
      if (key.stage == Stage::indexer_scores && rows.shape.back() > found->second.back()) {
        rows = slice(rows, 1, packed_columns ? first : 0, found->second.back());
      }
      insert(name + " (sequence " + std::to_string(s) + ")", own, std::move(rows));
    }
    adopted_.notes.push_back(name + ": cut by sequence");
  }

  const ExpectedStages& expected_;
  const std::vector<std::int64_t>& starts_;
  Adopted adopted_;
  std::map<StageKey, std::string> origin_;
  std::vector<std::pair<std::string, Shape>> unknown_;
};

}  // namespace

Adopted adopt(const Dump& dump, const Mapping& mapping, const ExpectedStages& expected,
              const std::vector<std::int64_t>& sequence_starts, const std::function<bool(Stage)>& wanted) {
  const auto passed_over = [&wanted](const MappedTensor& mapped) {
    return wanted && std::ranges::none_of(mapped.stages, [&](const StageKey& key) { return wanted(key.stage); });
  };
  Adoption adoption(expected, sequence_starts);
  for (const auto& [name, tensor] : dump) {
    const Mapping::Match match = mapping.match(name);
    if (match.kind == Mapping::Kind::mapped && !passed_over(match.tensor)) adoption.take(name, tensor, match.tensor);
    if (match.kind == Mapping::Kind::unknown) adoption.unknown(name, tensor.ranks.front().shape);
  }
  return adoption.finish();
}

Dump under_prefix(const Dump& dump, const std::string& prefix) {
  Dump rest;
  for (const auto& [name, tensor] : dump) {
    if (name.starts_with(prefix)) rest.emplace(name.substr(prefix.size()), tensor);
  }
  return rest;
}

}  // namespace mtpcheck
