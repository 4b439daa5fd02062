#include "harness/parity/reference_side/nearby_input.h"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "reference/random/philox.h"
#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

constexpr double kMove = 0x1p-7;
constexpr std::uint64_t kHiddenStream = 0;

Tensor encoded(Dtype dtype, const Shape& shape, const std::vector<double>& values) {
  if (dtype == Dtype::f64) return tensor_of<double>(shape, std::span<const double>(values));
  const std::vector<float> narrow(values.begin(), values.end());
  if (dtype == Dtype::f32) return tensor_of<float>(shape, std::span<const float>(narrow));
  Tensor tensor = make_tensor(dtype, shape);
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    const std::uint16_t bits = dtype == Dtype::bf16 ? f32_to_bf16(narrow[i]) : f32_to_f16(narrow[i]);
    std::memcpy(tensor.bytes.data() + i * sizeof(bits), &bits, sizeof(bits));
  }
  return tensor;
}

bool can_move(Dtype dtype) {
  return dtype == Dtype::f64 || dtype == Dtype::f32 || dtype == Dtype::bf16 || dtype == Dtype::f16;
}

}  // namespace

Tensor nearby_values(const Tensor& tensor, std::uint64_t sample, std::uint64_t stream) {
  if (!can_move(tensor.dtype)) return tensor;
  std::vector<double> values = to_f64(tensor.view());
  const RandomStream random(sample, stream);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + kMove * (2 * random.uniform(i) - 1);
  return encoded(tensor.dtype, tensor.shape, values);
}

HeadInput nearby_input(HeadInput input, std::uint64_t sample) {
  input.hidden_states = nearby_values(input.hidden_states, sample, kHiddenStream);
  return input;
}

Trace nearby_trace(const Trace& trace, const std::set<Stage>& moved, std::uint64_t sample) {
  Trace nearby;
  std::uint64_t stream = kHiddenStream;
  for (const auto& [key, tensor] : trace) {
    ++stream;
    const bool moves = info(key.stage).kind == StageKind::values && moved.contains(key.stage);
    nearby.emplace(key, moves ? nearby_values(tensor, sample, stream) : tensor);
  }
  return nearby;
}

}  // namespace mtpcheck
