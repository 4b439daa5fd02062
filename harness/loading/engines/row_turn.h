#pragma once

#include <cstddef>
#include <string_view>

#include "reference/model/config.h"

namespace mtpcheck {

/// The order in which an engine keeps the rows of a weight: in groups of `group` rows, row i of a group holds row
/// (i + shift) mod group of the same group in the files. An engine whose indexer wants the rotated rows first keeps
/// each head's d rows with shift d − r. group 0: as in the files.
struct RowTurn {
  std::size_t group = 0;
  std::size_t shift = 0;

  bool turns() const { return group > 1 && shift % group != 0; }
};

/// The order that an engine's own arithmetic expects. weight  as a split checkpoint names it: "self_attn.indexer.wq_b"
using RowTurnOf = RowTurn (*)(std::string_view weight, const HeadConfig& config);

}  // namespace mtpcheck
