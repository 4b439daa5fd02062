#pragma once

#include <cstddef>

/// How activations lie in memory: row-major, each row at a multiple of 8 elements, so that a row of bf16 starts on 16
/// bytes and of float on 32. The entries between a row's end and the next row's start are never read.
namespace mtpcheck::cuda {

constexpr int ceil_div(int n, int d) { return (n + d - 1) / d; }
constexpr int round_up(int n, int multiple) { return ceil_div(n, multiple) * multiple; }

/// Elements from one row of `n` to the next.
constexpr int row_stride(int n) { return round_up(n, 8); }

}  // namespace mtpcheck::cuda
