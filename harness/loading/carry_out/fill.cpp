#include "harness/loading/carry_out/fill.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/loading/carry_out/convert.h"
#include "reference/random/philox.h"

namespace mtpcheck {
namespace {

void put(Dtype dtype, float value, std::byte* element) {
  std::array<std::byte, sizeof(float)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  convert_elements(Dtype::f32, bytes.data(), 1, dtype, element, 1);
}

float constant(const Parameter& parameter, Fill fill) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  switch (fill) {
    case Fill::zero:
      return 0.0F;
    case Fill::sentinel:
      return std::numeric_limits<float>::lowest();
    case Fill::initial:
      switch (parameter.initial) {
        case Initial::zero:
          return 0.0F;
        case Initial::one:
          return 1.0F;
        case Initial::minus_one:
          return -1.0F;
        case Initial::minus_infinity:
          return -std::numeric_limits<float>::infinity();
        case Initial::float_min:
          return std::numeric_limits<float>::lowest();
        default:
          return kNan;
      }
    default:
      return kNan;
  }
}

void put_bf16(std::uint16_t bits, std::byte* element) { std::memcpy(element, &bits, sizeof bits); }

// The bytes of one element. The types without a NaN or a sign have values of their own.
void constant_element(const Parameter& parameter, Fill fill, std::byte* element) {
  const float value = constant(parameter, fill);
  const bool lowest = value == std::numeric_limits<float>::lowest();
  if (parameter.dtype == Dtype::u8) {
    *element = std::isnan(value) ? std::byte{0xFF} : value > 0 ? std::byte{1} : std::byte{0};
  } else if (parameter.dtype == Dtype::f8_e8m0 && lowest) {
    *element = std::byte{0};
  } else if (parameter.dtype == Dtype::bf16 && (lowest || std::isnan(value))) {
    put_bf16(lowest ? 0xFF7F : 0x7FC0, element);  // rounding the lowest float32 would give −∞
  } else if (parameter.dtype == Dtype::f16 && lowest) {
    put(Dtype::f16, -65504.0F, element);
  } else {
    put(parameter.dtype, value, element);
  }
}

// FNV-1a: the stream of a parameter is its name's.
std::uint64_t stream_of(const std::string& name) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

void random_elements(const Parameter& parameter, std::uint64_t seed, Tensor& tensor) {
  const RandomStream random(seed, stream_of(parameter.name));
  const std::size_t width = bits_of(parameter.dtype) / 8;
  const bool scale = parameter.role == Role::scale || parameter.role == Role::global_scale ||
                     parameter.role == Role::input_scale || parameter.role == Role::kv_scale;
  for (std::size_t i = 0; i < parameter.elements(); ++i) {
    std::byte* element = tensor.bytes.data() + i * width;
    if (parameter.dtype == Dtype::u8 && scale) {
      *element = static_cast<std::byte>(123 + random.below(i, 9));  // exponents around 127
    } else if (parameter.dtype == Dtype::u8) {
      *element = static_cast<std::byte>(random.below(i, 256));
    } else if (scale) {
      put(parameter.dtype, static_cast<float>(std::exp2(8.0 * random.uniform(i) - 4.0)), element);
    } else {
      put(parameter.dtype, static_cast<float>(0.02 * random.normal(i)), element);
    }
  }
}

}  // namespace

Tensor filled(const Parameter& parameter, Fill fill, std::uint64_t seed) {
  Tensor tensor = make_tensor(parameter.dtype, parameter.shape);
  if (fill == Fill::random) {
    random_elements(parameter, seed, tensor);
    return tensor;
  }
  if (tensor.bytes.empty()) return tensor;
  const std::size_t width = bits_of(parameter.dtype) / 8;
  constant_element(parameter, fill, tensor.bytes.data());
  // Each copy doubles what is filled.
  for (std::size_t done = width; done < tensor.bytes.size(); done *= 2) {
    std::memcpy(tensor.bytes.data() + done, tensor.bytes.data(), std::min(done, tensor.bytes.size() - done));
  }
  return tensor;
}

}  // namespace mtpcheck
