#pragma once

#include <cmath>
#include <vector>

#include "cuda/kernels/norm/rope_table.h"
#include "cuda/runtime/memory.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// RoPE with the default frequencies, on the device and by its definition.
struct TestRope {
  TestRope(int dims, bool half_split, double theta) {
    std::vector<double> half_turns;
    for (int i = 0; i < dims / 2; ++i) {
      frequencies.push_back(std::pow(theta, -2.0 * i / dims));
      half_turns.push_back(frequencies.back() / 3.14159265358979323846);
    }
    device = Buffer<double>(nullptr, std::span<const double>(half_turns));
    table = {.dims = dims, .half_split = half_split, .half_turns = device.data()};
  }

  std::vector<double> rotated(const std::vector<double>& x, int position) const {
    std::vector<double> y(x.size());
    const std::size_t pairs = x.size() / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      const std::size_t first = table.half_split ? i : 2 * i;
      const std::size_t second = table.half_split ? i + pairs : 2 * i + 1;
      const double angle = position * frequencies[i];
      y[first] = x[first] * std::cos(angle) - x[second] * std::sin(angle);
      y[second] = x[second] * std::cos(angle) + x[first] * std::sin(angle);
    }
    return y;
  }

  std::vector<double> frequencies;
  Buffer<double> device;
  RopeTable table;
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
