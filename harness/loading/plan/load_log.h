#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/loading/plan/plan.h"

namespace mtpcheck {

/// Writes the plan's log: the tensor at hand, the weight loader's call at hand, its copies, and what is said.
class LoadLog {
 public:
  explicit LoadLog(LoadPlan& plan) : plan_(plan) {}

  void begin_tensor(std::uint32_t tensor);
  std::uint32_t tensor() const { return tensor_; }

  void begin_load(std::uint32_t parameter, Shard shard = Shard::none, std::int32_t expert = -1);
  void write(const std::optional<Write>& write);
  void write(const std::vector<Write>& writes);
  /// The call returned; `written` is false where it left everything to another rank.
  void end_load(bool written = true);

  /// warning_once: says a text the first time only. True when it was said.
  bool warn_once(EngineWarning::Kind kind, const std::string& text);

  /// What the loads of this tensor come to: loaded, not_local, or nullopt without any.
  std::optional<Outcome> outcome_of_loads() const;

 private:
  LoadPlan& plan_;
  std::uint32_t tensor_ = 0;
  std::set<std::string> said_;
};

}  // namespace mtpcheck
