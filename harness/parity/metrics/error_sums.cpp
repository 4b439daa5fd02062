#include "harness/parity/metrics/error_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/parity/metrics/kernel/error_kernel.h"
#include "reference/parallel/thread_pool.h"
#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

constexpr double kNowhere = std::numeric_limits<double>::infinity();  // no error is above it: none is located

double per_element(double sum, std::size_t elements) { return elements == 0 ? 0 : sum / static_cast<double>(elements); }

/// Elements as the kernel reads them: f64, f32 and bf16 where they lie, f16 widened to float32.
class KernelOperand {
 public:
  explicit KernelOperand(const TensorView& tensor) : data_(tensor.bytes.data()) {
    switch (tensor.dtype) {
      case Dtype::f64:
        type_ = KernelType::f64;
        return;
      case Dtype::f32:
        type_ = KernelType::f32;
        return;
      case Dtype::bf16:
        type_ = KernelType::bf16;
        return;
      case Dtype::f16:
        widened_ = to_f32(tensor);
        data_ = std::as_bytes(std::span(widened_)).data();
        type_ = KernelType::f32;
        return;
      default:
        throw input_error(fmt::format("{}: {} elements are not compared as values; expected F64, F32, BF16 or F16",
                                      tensor.name, safetensors_name(tensor.dtype)));
    }
  }

  KernelType type() const { return type_; }
  const std::byte* at(std::size_t element) const { return data_ + element * size(); }

 private:
  std::size_t size() const { return type_ == KernelType::f64 ? 8 : type_ == KernelType::f32 ? 4 : 2; }

  const std::byte* data_;
  std::vector<float> widened_;
  KernelType type_ = KernelType::f64;
};

std::vector<ErrorSums> gather_rows(const TensorView& candidate, const TensorView& reference, std::size_t rows,
                                   bool locate) {
  const std::size_t elements = reference.elements();
  if (candidate.elements() != elements || (rows == 0 ? elements != 0 : elements % rows != 0)) {
    throw input_error(fmt::format("{}: {} has {} elements, {} has {}, in {} rows", reference.name,
                                  to_string(candidate.shape), candidate.elements(), to_string(reference.shape),
                                  elements, rows));
  }
  const KernelOperand c(candidate);
  const KernelOperand r(reference);
  const ErrorKernel kernel = error_kernel(c.type(), r.type());
  const std::size_t length = rows == 0 ? 0 : elements / rows;
  const std::size_t blocks = (length + kKernelBlock - 1) / kKernelBlock;  // of a row
  const auto sums_of = [&](std::size_t block, double locate_above) {
    const std::size_t at = block % blocks * kKernelBlock;
    const std::size_t first = block / blocks * length + at;
    return kernel(c.at(first), r.at(first), std::min(kKernelBlock, length - at), locate_above);
  };
  std::vector<ErrorSums> parts(rows * blocks);
  shared_pool().for_ranges(parts.size(), 16, kKernelBlock, [&](std::size_t begin, std::size_t end) {
    for (std::size_t block = begin; block < end; ++block) parts[block] = sums_of(block, kNowhere);
  });
  std::vector<ErrorSums> sums(rows);
  for (std::size_t block = 0; block < parts.size(); ++block) {  // in order, whoever computed them
    ErrorSums& row = sums[block / blocks];
    const bool largest = locate && parts[block].max_abs > row.max_abs;
    if (largest) parts[block].max_index = sums_of(block, row.max_abs).max_index;
    append(row, parts[block], block % blocks * kKernelBlock);
  }
  return sums;
}

}  // namespace

double ErrorSums::rms() const { return std::sqrt(per_element(squares, elements)); }
double ErrorSums::mean_abs() const { return per_element(abs, elements); }
double ErrorSums::reference_rms() const { return std::sqrt(per_element(reference_squares, elements)); }

double ErrorSums::relative_l2() const {
  if (squares == 0) return 0;
  if (reference_squares == 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(squares / reference_squares);
}

// ‖c − r‖² = (|c| − |r|)² + 2|c||r|(1 − cos), and |c| − |r| = (|c|² − |r|²) / (|c| + |r|): no difference of large
// numbers.
double ErrorSums::cosine_distance() const {
  if (squares == 0) return 0;
  if (reference_squares == 0 || candidate_squares == 0) return 1;
  const double reference = std::sqrt(reference_squares);
  const double candidate = std::sqrt(candidate_squares);
  const double lengths = energy_difference / (reference + candidate);
  return std::clamp((squares - lengths * lengths) / (2 * reference * candidate), 0.0, 2.0);
}

void append(ErrorSums& sums, const ErrorSums& part, std::size_t offset) {
  if (part.max_abs > sums.max_abs) {
    sums.max_abs = part.max_abs;
    sums.max_index = offset + part.max_index;
  }
  sums.abs += part.abs;
  sums.squares += part.squares;
  sums.reference_squares += part.reference_squares;
  sums.candidate_squares += part.candidate_squares;
  sums.energy_difference += part.energy_difference;
  sums.reference_range = std::max(sums.reference_range, part.reference_range);
  sums.elements += part.elements;
  sums.candidate_nan += part.candidate_nan;
  sums.reference_nan += part.reference_nan;
  sums.candidate_inf += part.candidate_inf;
  sums.reference_inf += part.reference_inf;
  sums.mask_mismatches += part.mask_mismatches;
}

std::vector<ErrorSums> compare_rows(const TensorView& candidate, const TensorView& reference, std::size_t rows) {
  return gather_rows(candidate, reference, rows, false);
}

ErrorSums compare_values(const TensorView& candidate, const TensorView& reference) {
  return gather_rows(candidate, reference, 1, true).front();
}

}  // namespace mtpcheck
