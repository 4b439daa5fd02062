#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/tensor/dtype.h"

namespace mtpcheck {

/// Converts one number from one element type to another exactly as torch's `copy_` does on a CPU:
///
///   to BF16, F16, E4M3   through float32, to nearest even; E4M3 saturates at ±448, infinities included
///   to E8M0              the exponent of the absolute value, rounded at half of it upwards; zero and below 2^−127 → 0
///   to U8                cut off towards zero and taken modulo 256; what no 64-bit integer holds becomes 0
///
/// source and result are little-endian and need not be aligned; `from` is any type of a byte or more but C64, `to` one
/// that parameters have: BF16, F16, F32, F8_E4M3, F8_E8M0, U8. Throws Error{input} for others.
void convert_element(Dtype from, const std::byte* source, Dtype to, std::byte* result);

/// `count` elements, `stride` elements of the source apart. A table does the work for sources of one and two bytes.
void convert_elements(Dtype from, const std::byte* source, std::size_t stride, Dtype to, std::byte* result,
                      std::size_t count);

}  // namespace mtpcheck
