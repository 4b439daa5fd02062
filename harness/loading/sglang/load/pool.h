#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "harness/loading/plan/load_log.h"
#include "harness/loading/sglang/head/head.h"
#include "harness/loading/symbolic/joined_view.h"

namespace mtpcheck::sglang {

/// The main thread that reads tensor after tensor, and the pool that its weight loaders run in. A loader's exception
/// stops no other tensor and is raised at the end; the main thread's own ends the load, and the pool finishes what it
/// was given. Here the pool's loaders run at once, in the order in which they are handed in: where they write to the
/// same place, a real pool may turn them round.
class Pool {
 public:
  Pool(const DraftHead& head, LoadPlan& plan);

  /// What the main thread does with a tensor: it says what became of it, or throws Raised.
  using Step = std::function<Outcome(const TensorView& tensor, const SourceView& weight)>;
  void run(const HeaderSet& headers, const Step& step);

  std::uint32_t tensor() const { return log_.tensor(); }
  void call_it(const std::string& name);
  std::optional<std::uint32_t> find(std::string_view parameter) const;
  /// params_dict[name]: raises KeyError.
  std::uint32_t find_or_raise(const std::string& parameter) const;
  const Parameter& parameter(std::uint32_t index) const { return plan_.parameters[index]; }

  /// Weight loaders in the pool: what they come to.
  Outcome load(std::uint32_t parameter, const JoinedView& weight, Shard shard = Shard::none);
  Outcome load_expert(std::uint32_t parameter, const SourceView& weight, Shard shard, std::size_t expert);

  /// In the main thread.
  void load_expert_now(std::uint32_t parameter, const SourceView& weight, Shard shard, std::size_t expert);
  /// The main thread's own copies into a part of a parameter.
  Outcome copy(std::uint32_t parameter, Shard shard, const std::function<std::vector<Write>()>& writes);

  Outcome warn_not_found(const std::string& parameter);
  /// The tensor that waited is loaded now, by the one at hand.
  void complete(std::uint32_t waiting);
  std::optional<Outcome> outcome_of_loads() const { return log_.outcome_of_loads(); }

 private:
  Outcome in_pool(const std::function<void()>& loader);
  void finish();

  const DraftHead& head_;
  LoadPlan& plan_;
  LoadLog log_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
  std::vector<EngineException> raised_;  // in the pool
};

}  // namespace mtpcheck::sglang
