#include "harness/loading/plan/load_log.h"

namespace mtpcheck {

void LoadLog::begin_tensor(std::uint32_t tensor) {
  tensor_ = tensor;
  plan_.tensors[tensor].first_load = static_cast<std::uint32_t>(plan_.loads.size());
}

void LoadLog::begin_load(std::uint32_t parameter, Shard shard, std::int32_t expert) {
  const auto first_write = static_cast<std::uint32_t>(plan_.writes.size());
  plan_.loads.push_back({parameter, shard, expert, false, first_write, 0});
  ++plan_.tensors[tensor_].load_count;
}

void LoadLog::write(const std::optional<Write>& write) {
  if (!write) return;
  plan_.writes.push_back(*write);
  plan_.writes.back().load = static_cast<std::uint32_t>(plan_.loads.size() - 1);
  ++plan_.loads.back().write_count;
}

void LoadLog::write(const std::vector<Write>& writes) {
  for (const Write& each : writes) write(std::optional<Write>(each));
}

void LoadLog::end_load(bool written) { plan_.loads.back().written = written; }

bool LoadLog::warn_once(EngineWarning::Kind kind, const std::string& text) {
  if (!said_.insert(text).second) return false;
  plan_.warnings.push_back({kind, tensor_, text});
  return true;
}

std::optional<Outcome> LoadLog::outcome_of_loads() const {
  const PlannedTensor& tensor = plan_.tensors[tensor_];
  if (tensor.load_count == 0) return std::nullopt;
  for (std::uint32_t i = 0; i < tensor.load_count; ++i) {
    if (plan_.loads[tensor.first_load + i].written) return Outcome::loaded;
  }
  return Outcome::not_local;
}

}  // namespace mtpcheck
