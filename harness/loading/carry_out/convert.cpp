#include "harness/loading/carry_out/convert.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

template <class T>
T load(const std::byte* source) {
  T value;
  std::memcpy(&value, source, sizeof value);
  return value;
}

template <class T>
void store(std::byte* result, T value) {
  std::memcpy(result, &value, sizeof value);
}

// NaN keeps its payload and becomes a quiet one. (Which NaN torch makes is its own affair in every conversion; the
// codes here are those of its vector code on a CPU.)
float quiet(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::isnan(value) ? std::bit_cast<float>(bits | 0x00400000u) : value;
}

// A number as the source holds it: torch converts integers, float64 and the shorter floats in three different ways.
using Number = std::variant<std::int64_t, std::uint64_t, double, float>;

Number number(Dtype dtype, const std::byte* source) {
  switch (dtype) {
    case Dtype::boolean:
      return std::int64_t{load<std::uint8_t>(source) != 0};
    case Dtype::u8:
      return std::int64_t{load<std::uint8_t>(source)};
    case Dtype::i8:
      return std::int64_t{load<std::int8_t>(source)};
    case Dtype::u16:
      return std::int64_t{load<std::uint16_t>(source)};
    case Dtype::i16:
      return std::int64_t{load<std::int16_t>(source)};
    case Dtype::u32:
      return std::int64_t{load<std::uint32_t>(source)};
    case Dtype::i32:
      return std::int64_t{load<std::int32_t>(source)};
    case Dtype::u64:
      return load<std::uint64_t>(source);
    case Dtype::i64:
      return load<std::int64_t>(source);
    case Dtype::f64:
      return load<double>(source);
    case Dtype::f32:
      return load<float>(source);
    case Dtype::f16:
      return quiet(f16_to_f32(load<std::uint16_t>(source)));
    case Dtype::bf16:
      return bf16_to_f32(load<std::uint16_t>(source));
    case Dtype::f8_e4m3: {
      const auto code = load<std::uint8_t>(source);
      const std::uint32_t nan = std::uint32_t{code} >> 7 << 31 | 0x7FF00000u;
      return (code & 0x7Fu) == 0x7Fu ? std::bit_cast<float>(nan) : e4m3_to_f32(code);
    }
    case Dtype::f8_e5m2:
      return quiet(e5m2_to_f32(load<std::uint8_t>(source)));
    case Dtype::f8_e8m0: {
      const auto code = load<std::uint8_t>(source);
      return code == 255 ? std::bit_cast<float>(0x7F800001u) : e8m0_to_f32(code);
    }
    default:
      throw input_error("elements of " + std::string(safetensors_name(dtype)) + " have no conversion");
  }
}

float as_f32(const Number& value) {
  return std::visit([](auto held) { return static_cast<float>(held); }, value);
}

std::uint8_t as_e8m0(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = (bits >> 23) & 0xFFu;
  if (exponent == 0xFF) return 0xFF;
  const std::uint32_t mantissa = bits & 0x7FFFFFu;
  // A mantissa of exactly one half rounds up, but for a subnormal.
  const bool up = mantissa > 0x400000u || (mantissa == 0x400000u && exponent > 0);
  return static_cast<std::uint8_t>(exponent + (up ? 1 : 0));
}

std::uint8_t as_u8(const Number& value) {
  const auto cut = [](double real) -> std::uint8_t {
    if (!(std::fabs(real) < 0x1p63)) return 0;
    return static_cast<std::uint8_t>(static_cast<std::int64_t>(real));
  };
  if (const auto* real = std::get_if<double>(&value)) return cut(*real);
  if (const auto* real = std::get_if<float>(&value)) return cut(static_cast<double>(*real));
  if (const auto* integer = std::get_if<std::uint64_t>(&value)) return static_cast<std::uint8_t>(*integer);
  return static_cast<std::uint8_t>(std::get<std::int64_t>(value));
}

std::uint16_t as_bf16(Dtype from, float value) {
  if (!std::isnan(value)) return f32_to_bf16(value);
  return from == Dtype::f32 || from == Dtype::f64 ? std::uint16_t{0xFFFF} : std::uint16_t{0x7FC0};
}

// Every code of a type of one or two bytes, converted.
using Table = std::vector<std::byte>;

const Table& table(Dtype from, Dtype to) {
  static std::mutex mutex;
  static std::map<std::pair<Dtype, Dtype>, Table> tables;
  const std::scoped_lock lock(mutex);
  Table& entries = tables[{from, to}];
  if (entries.empty()) {
    const std::size_t codes = std::size_t{1} << bits_of(from);
    const std::size_t width = bits_of(to) / 8;
    entries.resize(codes * width);
    for (std::size_t code = 0; code < codes; ++code) {
      const auto bits = static_cast<std::uint16_t>(code);
      std::array<std::byte, 2> source{};
      std::memcpy(source.data(), &bits, sizeof bits);
      convert_element(from, source.data(), to, entries.data() + code * width);
    }
  }
  return entries;
}

}  // namespace

void convert_element(Dtype from, const std::byte* source, Dtype to, std::byte* result) {
  const Number value = number(from, source);
  switch (to) {
    case Dtype::f32:
      return store(result, as_f32(value));
    case Dtype::bf16:
      return store(result, as_bf16(from, as_f32(value)));
    case Dtype::f16:
      return store(result, f32_to_f16(as_f32(value)));
    case Dtype::f8_e4m3:
      return store(result, f32_to_e4m3(as_f32(value)));
    case Dtype::f8_e8m0:
      return store(result, as_e8m0(as_f32(value)));
    case Dtype::u8:
      return store(result, as_u8(value));
    default:
      throw input_error("no parameter is of type " + std::string(safetensors_name(to)));
  }
}

void convert_elements(Dtype from, const std::byte* source, std::size_t stride, Dtype to, std::byte* result,
                      std::size_t count) {
  const std::size_t width_from = bits_of(from) / 8;
  const std::size_t width_to = bits_of(to) / 8;
  if (from == to) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(result + i * width_to, source + i * stride * width_from, width_to);
    }
  } else if (width_from <= 2) {
    const Table& entries = table(from, to);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t code = 0;
      std::memcpy(&code, source + i * stride * width_from, width_from);
      std::memcpy(result + i * width_to, entries.data() + code * width_to, width_to);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      convert_element(from, source + i * stride * width_from, to, result + i * width_to);
    }
  }
}

}  // namespace mtpcheck
