#pragma once

#include <span>
#include <string_view>

#include "reference/head/deviations.h"
#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/stages.h"

namespace mtpcheck {

/// A known way of computing the head otherwise than the definition does.
struct KnownDeviation {
  std::string_view id;           ///< "swap_gate_up"
  std::string_view description;  ///< completes "the candidate matches …"
  Stage first;                   ///< the stage at which it shows first, where the head has it
  void (*apply)(Deviations& deviations, Conventions& conventions);
};

/// All of them, in the order of the stages at which they show: for likely causes in replay, and for fault injection.
std::span<const KnownDeviation> known_deviations();

}  // namespace mtpcheck
