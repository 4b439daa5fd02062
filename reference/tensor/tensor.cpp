#include "reference/tensor/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));  // offsets need not be aligned
  return value;
}

template <class Stored, class Out, class Convert>
std::vector<Out> convert_all(const TensorView& tensor, Convert convert) {
  std::vector<Out> out(tensor.elements());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<Out>(convert(load<Stored>(tensor.bytes.data() + i * sizeof(Stored))));
  }
  return out;
}

template <class Out>
std::vector<Out> to_floats(const TensorView& tensor) {
  const auto as_is = [](auto value) { return value; };
  switch (tensor.dtype) {
    case Dtype::boolean:
    case Dtype::u8:
      return convert_all<std::uint8_t, Out>(tensor, as_is);
    case Dtype::i8:
      return convert_all<std::int8_t, Out>(tensor, as_is);
    case Dtype::u16:
      return convert_all<std::uint16_t, Out>(tensor, as_is);
    case Dtype::i16:
      return convert_all<std::int16_t, Out>(tensor, as_is);
    case Dtype::u32:
      return convert_all<std::uint32_t, Out>(tensor, as_is);
    case Dtype::i32:
      return convert_all<std::int32_t, Out>(tensor, as_is);
    case Dtype::u64:
      return convert_all<std::uint64_t, Out>(tensor, as_is);
    case Dtype::i64:
      return convert_all<std::int64_t, Out>(tensor, as_is);
    case Dtype::f16:
      return convert_all<std::uint16_t, Out>(tensor, f16_to_f32);
    case Dtype::bf16:
      return convert_all<std::uint16_t, Out>(tensor, bf16_to_f32);
    case Dtype::f32:
      return convert_all<float, Out>(tensor, as_is);
    case Dtype::f64:
      return convert_all<double, Out>(tensor, as_is);
    case Dtype::f8_e4m3:
      return convert_all<std::uint8_t, Out>(tensor, e4m3_to_f32);
    case Dtype::f8_e5m2:
      return convert_all<std::uint8_t, Out>(tensor, e5m2_to_f32);
    case Dtype::f8_e8m0:
      return convert_all<std::uint8_t, Out>(tensor, e8m0_to_f32);
    case Dtype::c64:
    case Dtype::f6_e2m3:
    case Dtype::f6_e3m2:
    case Dtype::f4_e2m1:
      break;
  }
  throw input_error(fmt::format("{}: tensor {} holds {}, which has no values to convert", tensor.file, tensor.name,
                                safetensors_name(tensor.dtype)));
}

}  // namespace

std::size_t elements_of(std::span<const std::size_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

std::string to_string(std::span<const std::size_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Tensor make_tensor(Dtype dtype, Shape shape) {
  const auto bytes = byte_size(dtype, elements_of(shape));
  if (!bytes)
    throw input_error(fmt::format("a {} tensor of {} has no whole bytes", torch_name(dtype), to_string(shape)));
  return {dtype, std::move(shape), std::vector<std::byte>(*bytes)};
}

std::vector<double> to_f64(const TensorView& tensor) { return to_floats<double>(tensor); }

std::vector<float> to_f32(const TensorView& tensor) { return to_floats<float>(tensor); }

std::vector<std::int64_t> to_i64(const TensorView& tensor) {
  const auto as_is = [](auto value) { return value; };
  switch (tensor.dtype) {
    case Dtype::boolean:
    case Dtype::u8:
      return convert_all<std::uint8_t, std::int64_t>(tensor, as_is);
    case Dtype::i8:
      return convert_all<std::int8_t, std::int64_t>(tensor, as_is);
    case Dtype::u16:
      return convert_all<std::uint16_t, std::int64_t>(tensor, as_is);
    case Dtype::i16:
      return convert_all<std::int16_t, std::int64_t>(tensor, as_is);
    case Dtype::u32:
      return convert_all<std::uint32_t, std::int64_t>(tensor, as_is);
    case Dtype::i32:
      return convert_all<std::int32_t, std::int64_t>(tensor, as_is);
    case Dtype::u64:
      return convert_all<std::uint64_t, std::int64_t>(tensor, as_is);
    case Dtype::i64:
      return convert_all<std::int64_t, std::int64_t>(tensor, as_is);
    default:
      throw input_error(fmt::format("{}: tensor {} holds {}; integers were expected", tensor.file, tensor.name,
                                    safetensors_name(tensor.dtype)));
  }
}

}  // namespace mtpcheck
