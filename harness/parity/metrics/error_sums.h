#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// What one pass over a candidate and a reference gathers; everything else of the error is derived from it.
/// The sums are over elements that are finite on both sides. All arithmetic is float64, in an order that depends
/// neither on the processor nor on the number of threads.
struct ErrorSums {
  double max_abs = 0;            ///< largest |c − r|
  std::size_t max_index = 0;     ///< its first index, from compare_values; 0 where all agree
  double abs = 0;                ///< Σ |c − r|
  double squares = 0;            ///< Σ (c − r)²
  double reference_squares = 0;  ///< Σ r²
  double candidate_squares = 0;  ///< Σ c²
  double energy_difference = 0;  ///< Σ (c − r)(c + r) = Σ c² − Σ r², without its cancellation
  double reference_range = 0;    ///< largest |r|
  std::size_t elements = 0;      ///< finite on both sides
  std::size_t candidate_nan = 0;
  std::size_t reference_nan = 0;
  std::size_t candidate_inf = 0;
  std::size_t reference_inf = 0;
  /// Elements that cannot be compared by value: a NaN on any side, or infinities that are not the same on both.
  std::size_t mask_mismatches = 0;

  double rms() const;              ///< √(squares / elements)
  double mean_abs() const;         ///< abs / elements
  double reference_rms() const;    ///< √(reference_squares / elements)
  double relative_l2() const;      ///< √(squares / reference_squares); 0 / 0 is 0, x / 0 infinite
  double cosine_distance() const;  ///< 1 − cos, exact to its last digits for near-equal sides; see the .cpp
};

/// Adds a later part of the same tensor; `offset` is the index of the part's first element.
void append(ErrorSums& sums, const ErrorSums& part, std::size_t offset);

/// Both tensors of the same number of elements, float types (f64, f32, bf16, f16) in any pairing.
ErrorSums compare_values(const TensorView& candidate, const TensorView& reference);

/// The same for each of `rows` equally long parts, without looking up where the largest errors are. Throws Error{input}
/// when the elements don't divide.
std::vector<ErrorSums> compare_rows(const TensorView& candidate, const TensorView& reference, std::size_t rows);

}  // namespace mtpcheck
