#include "harness/loading/sglang/load/pool.h"

#include "harness/loading/sglang/load/expert_loader.h"
#include "harness/loading/sglang/load/linear_loaders.h"

namespace mtpcheck::sglang {

Pool::Pool(const DraftHead& head, LoadPlan& plan) : head_(head), plan_(plan), log_(plan) {
  for (std::uint32_t index = 0; index < plan.parameters.size(); ++index) {
    by_name_.emplace(plan.parameters[index].name, index);
  }
}

void Pool::run(const HeaderSet& headers, const Step& step) {
  for (const std::uint32_t tensor : plan_.read_order) {
    log_.begin_tensor(tensor);
    try {
      plan_.tensors[tensor].outcome = step(headers.tensors[tensor], SourceView(headers.tensors[tensor], tensor));
    } catch (const Raised& raised) {
      plan_.tensors[tensor].outcome = Outcome::error;
      plan_.exception = {raised.type, raised.message, EngineException::Where::load_weights, tensor, {}};
      plan_.swallowed = raised_;
      return;
    }
  }
  finish();
}

// SGLang keeps no account of what was loaded, and checks nothing.
void Pool::finish() {
  plan_.loaded.emplace();
  if (raised_.empty()) return;
  plan_.exception = raised_.front();
  plan_.swallowed.assign(raised_.begin() + 1, raised_.end());
}

void Pool::call_it(const std::string& name) { plan_.tensors[log_.tensor()].engine_name = name; }

std::optional<std::uint32_t> Pool::find(std::string_view parameter) const {
  const auto found = by_name_.find(parameter);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

std::uint32_t Pool::find_or_raise(const std::string& parameter) const {
  const auto found = find(parameter);
  if (!found) throw Raised{"KeyError", "'" + parameter + "'"};
  return *found;
}

Outcome Pool::in_pool(const std::function<void()>& loader) {
  try {
    loader();
  } catch (const Raised& raised) {
    raised_.push_back({raised.type, raised.message, EngineException::Where::weight_loader, log_.tensor(), {}});
    return Outcome::error;
  }
  return log_.outcome_of_loads().value_or(Outcome::loaded);
}

Outcome Pool::load(std::uint32_t parameter, const JoinedView& weight, Shard shard) {
  log_.begin_load(parameter, shard);
  return in_pool([&] {
    std::optional<std::size_t> part;
    if (shard != Shard::none) part = shard == Shard::first ? 0 : 1;
    log_.write(load_linear(head_.parameters[parameter], parameter, weight, part, log_.tensor()));
    log_.end_load();
  });
}

Outcome Pool::load_expert(std::uint32_t parameter, const SourceView& weight, Shard shard, std::size_t expert) {
  return in_pool([&] { load_expert_now(parameter, weight, shard, expert); });
}

void Pool::load_expert_now(std::uint32_t parameter, const SourceView& weight, Shard shard, std::size_t expert) {
  log_.begin_load(parameter, shard, static_cast<std::int32_t>(expert));
  const ExpertLoad load =
      sglang::load_expert(head_.parameters[parameter], parameter, weight, shard, expert, head_, log_.tensor());
  log_.write(load.writes);
  log_.end_load(load.local);
}

Outcome Pool::copy(std::uint32_t parameter, Shard shard, const std::function<std::vector<Write>()>& writes) {
  const std::vector<Write> copies = writes();
  log_.begin_load(parameter, shard);
  log_.write(copies);
  log_.end_load();
  return Outcome::loaded;
}

Outcome Pool::warn_not_found(const std::string& parameter) {
  plan_.warnings.push_back(
      {EngineWarning::Kind::unknown_weight, log_.tensor(), parameter + " not found in params_dict."});
  return Outcome::unknown_warning;
}

void Pool::complete(std::uint32_t waiting) { plan_.tensors[waiting].outcome = Outcome::loaded; }

}  // namespace mtpcheck::sglang
