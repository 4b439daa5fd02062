#include "reference/tensor/dtype.h"

#include <algorithm>
#include <array>
#include <limits>

namespace mtpcheck {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::size_t bits;
  bool floating;
  std::string_view safetensors;
  std::string_view torch;
};

// In the order of the enumeration.
constexpr std::array<DtypeRow, 20> kDtypes{{
    {Dtype::boolean, 8, false, "BOOL", "bool"},
    {Dtype::u8, 8, false, "U8", "uint8"},
    {Dtype::i8, 8, false, "I8", "int8"},
    {Dtype::u16, 16, false, "U16", "uint16"},
    {Dtype::i16, 16, false, "I16", "int16"},
    {Dtype::u32, 32, false, "U32", "uint32"},
    {Dtype::i32, 32, false, "I32", "int32"},
    {Dtype::u64, 64, false, "U64", "uint64"},
    {Dtype::i64, 64, false, "I64", "int64"},
    {Dtype::f16, 16, true, "F16", "float16"},
    {Dtype::bf16, 16, true, "BF16", "bfloat16"},
    {Dtype::f32, 32, true, "F32", "float32"},
    {Dtype::f64, 64, true, "F64", "float64"},
    {Dtype::c64, 64, false, "C64", "complex64"},
    {Dtype::f8_e4m3, 8, true, "F8_E4M3", "float8_e4m3fn"},
    {Dtype::f8_e5m2, 8, true, "F8_E5M2", "float8_e5m2"},
    {Dtype::f8_e8m0, 8, true, "F8_E8M0", "float8_e8m0fnu"},
    {Dtype::f6_e2m3, 6, false, "F6_E2M3", "float6_e2m3fn"},
    {Dtype::f6_e3m2, 6, false, "F6_E3M2", "float6_e3m2fn"},
    {Dtype::f4_e2m1, 4, false, "F4", "float4_e2m1fn_x2"},
}};

const DtypeRow& row(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t bits_of(Dtype dtype) { return row(dtype).bits; }

std::optional<std::size_t> byte_size(Dtype dtype, std::size_t elements) {
  const std::size_t bits = bits_of(dtype);
  if (elements > std::numeric_limits<std::size_t>::max() / bits) return std::nullopt;
  if (elements * bits % 8 != 0) return std::nullopt;
  return elements * bits / 8;
}

std::string_view safetensors_name(Dtype dtype) { return row(dtype).safetensors; }

std::optional<Dtype> dtype_from_safetensors(std::string_view name) {
  const auto found = std::ranges::find(kDtypes, name, &DtypeRow::safetensors);
  if (found == kDtypes.end()) return std::nullopt;
  return found->dtype;
}

std::string_view torch_name(Dtype dtype) { return row(dtype).torch; }

std::optional<Dtype> dtype_from_torch(std::string_view name) {
  const auto found = std::ranges::find(kDtypes, name, &DtypeRow::torch);
  if (found == kDtypes.end()) return std::nullopt;
  return found->dtype;
}

bool is_floating(Dtype dtype) { return row(dtype).floating; }

bool is_plain_float(Dtype dtype) {
  return dtype == Dtype::bf16 || dtype == Dtype::f16 || dtype == Dtype::f32 || dtype == Dtype::f64;
}

bool is_fp8(Dtype dtype) { return dtype == Dtype::f8_e4m3 || dtype == Dtype::f8_e5m2; }

}  // namespace mtpcheck
