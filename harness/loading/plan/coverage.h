#pragma once

#include <cstdint>
#include <vector>

#include "harness/loading/plan/plan.h"

namespace mtpcheck {

/// A part of a write that no later write replaced.
struct VisibleSlice {
  Box box;              ///< of the parameter
  std::uint32_t write;  ///< index into LoadPlan::writes
};

/// A part of a write that a later one replaced.
struct Overwritten {
  Box box;
  std::uint32_t earlier;  ///< write whose elements are lost
  std::uint32_t later;
};

/// Element by element, but in boxes: what a load leaves in one parameter.
struct Coverage {
  std::size_t elements = 0;
  std::size_t written = 0;
  std::vector<VisibleSlice> visible;  ///< disjoint, in the order of the writes
  std::vector<Box> missing;           ///< disjoint, joined; keep the parameter's initial value
  std::vector<Overwritten> overwritten;

  bool complete() const { return written == elements; }
};

/// Coverage of every parameter of the plan, parallel to LoadPlan::parameters.
std::vector<Coverage> coverage_of(const LoadPlan& plan);

/// Coverage of one parameter.
Coverage coverage_of(const LoadPlan& plan, std::uint32_t parameter);

}  // namespace mtpcheck
