#include "harness/parity/stage/tolerance.h"

#include <cmath>
#include <limits>
#include <string>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

struct FloatFormat {
  int mantissa_bits;
  int smallest_exponent;  // of a normal number
};

FloatFormat format_of(Dtype precision) {
  switch (precision) {
    case Dtype::f64:
      return {52, -1022};
    case Dtype::f32:
      return {23, -126};
    case Dtype::bf16:
      return {7, -126};
    case Dtype::f16:
      return {10, -14};
    default:
      throw usage_error("precision " + std::string(safetensors_name(precision)) + " has no tolerance");
  }
}

}  // namespace

double ulp(Dtype precision, double magnitude) {
  if (magnitude == 0) return 0;
  if (!std::isfinite(magnitude)) return std::numeric_limits<double>::infinity();
  const FloatFormat format = format_of(precision);
  return std::ldexp(1.0, std::max(std::ilogb(magnitude), format.smallest_exponent) - format.mantissa_bits);
}

double allowance(const Tolerance& tolerance, double rounding_error, double magnitude) {
  return tolerance.k * rounding_error + tolerance.floor_ulps * ulp(tolerance.precision, magnitude);
}

double few_tokens_factor(std::span<const double> energies) {
  double sum = 0;
  double squares = 0;
  for (const double energy : energies) {
    sum += energy;
    squares += energy * energy;
  }
  return sum > 0 && std::isfinite(squares) ? 1 + 2 * std::sqrt(squares) / sum : 1;
}

double used(double error, double limit) {
  if (error == 0 && limit == 0) return 0;
  return error / limit;
}

std::string_view precision_name(Dtype precision) {
  switch (precision) {
    case Dtype::f64:
      return "f64";
    case Dtype::f32:
      return "f32";
    case Dtype::bf16:
      return "bf16";
    case Dtype::f16:
      return "f16";
    default:
      return safetensors_name(precision);
  }
}

}  // namespace mtpcheck
