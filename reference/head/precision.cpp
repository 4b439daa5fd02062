#include "reference/head/precision.h"

namespace mtpcheck {

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::f64:
      return "f64";
    case Precision::f32:
      return "f32";
    case Precision::bf16:
      return "bf16";
    case Precision::f16:
      return "f16";
  }
  return "";
}

std::optional<Precision> precision_from_name(std::string_view name) {
  for (const auto precision : {Precision::f64, Precision::f32, Precision::bf16, Precision::f16}) {
    if (name == to_string(precision)) return precision;
  }
  return std::nullopt;
}

Dtype dtype_of(Precision precision) {
  switch (precision) {
    case Precision::f64:
      return Dtype::f64;
    case Precision::f32:
      return Dtype::f32;
    case Precision::bf16:
      return Dtype::bf16;
    case Precision::f16:
      return Dtype::f16;
  }
  return Dtype::f32;
}

}  // namespace mtpcheck
