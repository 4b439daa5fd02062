#include "harness/loading/plan/box.h"

#include <tuple>

namespace mtpcheck {
namespace {

void keep(std::vector<Box>& boxes, const Box& box) {
  if (!box.empty()) boxes.push_back(box);
}

// The union of two boxes, when it is a box: two axes agree and the third ones touch.
bool join(Box& into, const Box& other) {
  const auto touch = [](Interval a, Interval b) { return a.end == b.begin || b.end == a.begin; };
  const auto span = [](Interval a, Interval b) { return Interval{std::min(a.begin, b.begin), std::max(a.end, b.end)}; };
  const bool same_experts = into.experts == other.experts;
  const bool same_rows = into.rows == other.rows;
  const bool same_cols = into.cols == other.cols;
  if (same_experts && same_rows && touch(into.cols, other.cols)) {
    into.cols = span(into.cols, other.cols);
  } else if (same_experts && same_cols && touch(into.rows, other.rows)) {
    into.rows = span(into.rows, other.rows);
  } else if (same_rows && same_cols && touch(into.experts, other.experts)) {
    into.experts = span(into.experts, other.experts);
  } else {
    return false;
  }
  return true;
}

bool before(const Box& a, const Box& b) {
  return std::tie(a.experts.begin, a.rows.begin, a.cols.begin) < std::tie(b.experts.begin, b.rows.begin, b.cols.begin);
}

}  // namespace

std::vector<Box> difference(const Box& from, const Box& hole) {
  const Box common = intersection(from, hole);
  if (common.empty()) return {from};
  std::vector<Box> rest;
  keep(rest, {{from.experts.begin, common.experts.begin}, from.rows, from.cols});
  keep(rest, {{common.experts.end, from.experts.end}, from.rows, from.cols});
  keep(rest, {common.experts, {from.rows.begin, common.rows.begin}, from.cols});
  keep(rest, {common.experts, {common.rows.end, from.rows.end}, from.cols});
  keep(rest, {common.experts, common.rows, {from.cols.begin, common.cols.begin}});
  keep(rest, {common.experts, common.rows, {common.cols.end, from.cols.end}});
  return rest;
}

std::vector<Box> difference(std::span<const Box> boxes, const Box& hole) {
  std::vector<Box> rest;
  for (const Box& box : boxes) {
    for (const Box& piece : difference(box, hole)) rest.push_back(piece);
  }
  return rest;
}

std::vector<Box> joined(std::vector<Box> boxes) {
  std::ranges::sort(boxes, before);
  for (bool again = true; again;) {
    again = false;
    std::vector<Box> result;
    for (const Box& box : boxes) {
      const bool taken = std::ranges::any_of(result, [&](Box& earlier) { return join(earlier, box); });
      if (taken) {
        again = true;
      } else {
        result.push_back(box);
      }
    }
    boxes = std::move(result);
  }
  std::ranges::sort(boxes, before);
  return boxes;
}

}  // namespace mtpcheck
