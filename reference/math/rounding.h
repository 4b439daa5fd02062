#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/math/rows.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {

/// The format to which a rounded run rounds what an engine stores. float64 runs never round.
enum class Format : std::uint8_t { exact, bf16, f16 };

inline float round_to(Format format, float value) {
  switch (format) {
    case Format::exact:
      return value;
    case Format::bf16:
      return round_to_bf16(value);
    case Format::f16:
      return round_to_f16(value);
  }
  return value;
}
inline double round_to(Format /*format*/, double value) { return value; }

/// Rounds every element of `count` in place.
template <class S>
void round_all(Format format, S* values, std::size_t count) {
  if (format == Format::exact) return;
  for (std::size_t i = 0; i < count; ++i) values[i] = round_to(format, values[i]);
}

template <class S>
void round_all(Format format, Rows<S>& values) {
  round_all(format, values.data(), static_cast<std::size_t>(values.size()));
}

}  // namespace mtpcheck
