#include "harness/loading/plan/coverage.h"

#include <algorithm>

namespace mtpcheck {
namespace {

// The writes to one parameter fall into groups that cannot touch each other: those of single experts, one group an
// expert. A write over several experts at once joins them all; then there is one group.
std::vector<std::vector<std::uint32_t>> independent_groups(const LoadPlan& plan, const Parameter& parameter,
                                                           const std::vector<std::uint32_t>& writes) {
  const bool apart =
      std::ranges::all_of(writes, [&](std::uint32_t index) { return plan.writes[index].box.experts.size() == 1; });
  std::vector<std::vector<std::uint32_t>> groups(apart ? parameter.extents.experts : 1);
  for (const std::uint32_t index : writes) {
    groups[apart ? plan.writes[index].box.experts.begin : 0].push_back(index);
  }
  return groups;
}

// Goes through the writes from the last to the first: what is still free when its turn comes stays visible.
void cover_group(const LoadPlan& plan, const Box& region, const std::vector<std::uint32_t>& writes,
                 Coverage& coverage) {
  std::vector<Box> free{region};
  std::vector<VisibleSlice> later;
  for (std::size_t left = writes.size(); left-- > 0;) {
    const std::uint32_t index = writes[left];
    const Box& box = plan.writes[index].box;
    for (const VisibleSlice& slice : later) {
      const Box lost = intersection(slice.box, box);
      if (!lost.empty()) coverage.overwritten.push_back({lost, index, slice.write});
    }
    for (const Box& piece : free) {
      const Box seen = intersection(piece, box);
      if (!seen.empty()) later.push_back({seen, index});
    }
    free = difference(free, box);
  }
  coverage.visible.insert(coverage.visible.end(), later.begin(), later.end());
  coverage.missing.insert(coverage.missing.end(), free.begin(), free.end());
}

Coverage cover(const LoadPlan& plan, const Parameter& parameter, const std::vector<std::uint32_t>& writes) {
  Coverage coverage;
  coverage.elements = parameter.elements();
  const auto groups = independent_groups(plan, parameter, writes);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    Box region = whole(parameter.extents);
    if (groups.size() > 1) region.experts = {group, group + 1};
    if (!region.empty()) cover_group(plan, region, groups[group], coverage);
  }
  std::ranges::stable_sort(coverage.visible, {}, &VisibleSlice::write);
  coverage.missing = joined(std::move(coverage.missing));
  for (const VisibleSlice& slice : coverage.visible) coverage.written += slice.box.elements();
  return coverage;
}

}  // namespace

std::vector<Coverage> coverage_of(const LoadPlan& plan) {
  std::vector<std::vector<std::uint32_t>> writes(plan.parameters.size());
  for (std::uint32_t index = 0; index < plan.writes.size(); ++index) {
    writes[plan.writes[index].parameter].push_back(index);
  }
  std::vector<Coverage> result;
  result.reserve(plan.parameters.size());
  for (std::size_t index = 0; index < plan.parameters.size(); ++index) {
    result.push_back(cover(plan, plan.parameters[index], writes[index]));
  }
  return result;
}

Coverage coverage_of(const LoadPlan& plan, std::uint32_t parameter) {
  std::vector<std::uint32_t> writes;
  for (std::uint32_t index = 0; index < plan.writes.size(); ++index) {
    if (plan.writes[index].parameter == parameter) writes.push_back(index);
  }
  return cover(plan, plan.parameters[parameter], writes);
}

}  // namespace mtpcheck
