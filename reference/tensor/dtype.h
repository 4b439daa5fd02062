#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mtpcheck {

/// Element types of safetensors files. The packed sub-byte types are carried as opaque bytes.
enum class Dtype : std::uint8_t {
  boolean,
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  u64,
  i64,
  f16,
  bf16,
  f32,
  f64,
  c64,
  f8_e4m3,  ///< OCP E4M3 "fn": no infinities, NaN is 0x7F and 0xFF
  f8_e5m2,
  f8_e8m0,  ///< a power of two, 2^(byte − 127); 255 is NaN
  f6_e2m3,
  f6_e3m2,
  f4_e2m1,
};

/// Bits of one element: 4 and 6 for the packed types.
std::size_t bits_of(Dtype dtype);

/// Bytes of `elements` elements, packed without padding. nullopt when the bits do not fill whole bytes or the product
/// overflows.
std::optional<std::size_t> byte_size(Dtype dtype, std::size_t elements);

/// The name in a safetensors header, e.g. "F8_E4M3".
std::string_view safetensors_name(Dtype dtype);

/// The inverse of `safetensors_name`; nullopt for a name that is not in the format.
std::optional<Dtype> dtype_from_safetensors(std::string_view name);

/// PyTorch's word, e.g. "float8_e4m3fn", "bfloat16".
std::string_view torch_name(Dtype dtype);

/// The inverse of `torch_name`.
std::optional<Dtype> dtype_from_torch(std::string_view name);

/// True for the types that hold real numbers in floating point (F8_E8M0 included).
bool is_floating(Dtype dtype);

/// True for F16, BF16, F32 and F64: numbers that stand for themselves, without a scale.
bool is_plain_float(Dtype dtype);

/// True for F8_E4M3 and F8_E5M2: numbers that need a scale.
bool is_fp8(Dtype dtype);

}  // namespace mtpcheck
