#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mtpcheck {

/// The three axes of every parameter: expert, row, column.
///
///   shape [E, r, c]  → E, r, c        expert weights and block scales
///   shape [E, p]     → E, p, 1        one scale a fused part (w1, w3) of each expert
///   shape [E]        → E, 1, 1        one scale an expert
///   shape [r, c]     → 1, r, c        linear weights and their scale grids
///   shape [r]        → 1, r, 1        norms, biases, sinks, one scale a fused part
///   shape []         → 1, 1, 1
///
/// The row-major layout is the same, so element (e, r, c) is the (e·rows + r)·cols + c-th of the parameter.
struct Extents {
  std::size_t experts = 1;
  std::size_t rows = 1;
  std::size_t cols = 1;

  std::size_t elements() const { return experts * rows * cols; }
  friend bool operator==(const Extents&, const Extents&) = default;
};

/// Indices [begin, end) of one axis.
struct Interval {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

inline Interval intersection(Interval a, Interval b) {
  return {std::max(a.begin, b.begin), std::max(std::max(a.begin, b.begin), std::min(a.end, b.end))};
}

/// A block of a parameter: experts × rows × columns.
struct Box {
  Interval experts;
  Interval rows;
  Interval cols;

  std::size_t elements() const { return experts.size() * rows.size() * cols.size(); }
  bool empty() const { return experts.empty() || rows.empty() || cols.empty(); }
  friend bool operator==(const Box&, const Box&) = default;
};

inline Box whole(const Extents& extents) { return {{0, extents.experts}, {0, extents.rows}, {0, extents.cols}}; }

inline Box intersection(const Box& a, const Box& b) {
  return {intersection(a.experts, b.experts), intersection(a.rows, b.rows), intersection(a.cols, b.cols)};
}

/// `from` without `hole`: at most six disjoint boxes, none empty.
std::vector<Box> difference(const Box& from, const Box& hole);

/// `boxes` without `hole`; the boxes must be disjoint and stay so.
std::vector<Box> difference(std::span<const Box> boxes, const Box& hole);

/// Joins boxes that share a whole face until none do, and sorts by expert, row, column. The result is what a person
/// wants to read: "experts 3 to 7", not five lines.
std::vector<Box> joined(std::vector<Box> boxes);

}  // namespace mtpcheck
