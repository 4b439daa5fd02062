#include "harness/faults/catalogue/fault.h"

#include <algorithm>

namespace mtpcheck {

std::string_view to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::checkpoint:
      return "checkpoint";
    case FaultKind::loader:
      return "loader";
    case FaultKind::head:
      return "head";
    case FaultKind::protocol:
      return "protocol";
    case FaultKind::metric:
      return "metric";
  }
  return {};
}

std::string_view to_string(Catcher catcher) {
  switch (catcher) {
    case Catcher::audit:
      return "audit";
    case Catcher::compare:
      return "compare";
    case Catcher::accept:
      return "accept";
  }
  return {};
}

std::vector<Fault> fault_catalogue() {
  std::vector<Fault> all;
  for (const auto part : {checkpoint_name_faults(), checkpoint_scale_faults(), checkpoint_file_faults(),
                          loader_faults(), head_faults(), protocol_faults(), metric_faults()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

const Fault* find_fault(std::span<const Fault> faults, std::string_view id) {
  const auto found = std::ranges::find(faults, id, &Fault::id);
  return found == faults.end() ? nullptr : &*found;
}

}  // namespace mtpcheck
