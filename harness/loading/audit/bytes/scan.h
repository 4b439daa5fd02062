#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// What the numbers of a tensor are, which decides what is suspicious in them.
enum class Content : std::uint8_t {
  matrix,  ///< a row of zeros is nothing that training leaves behind
  norm,    ///< neither is a norm of zeros alone
  sink,    ///< −∞ is a sink that takes nothing
  other,   ///< biases, embeddings and heads: zeros are normal
  scale,   ///< cells are positive and finite; uint8 holds E8M0 exponents
};

/// One kind of suspicious value and where it stands.
struct Suspicion {
  std::string what;       ///< "NaN", "all-zero row", "finfo(float32).min", …
  bool sentinel = false;  ///< what memory was filled with before; false: a number that is not finite
  std::size_t count = 0;  ///< rows or elements
  std::size_t first = 0;  ///< row of a zero row, else element in row-major order
};

/// Looks at every element: sentinels (finfo(float32).min, −1.0, NaN, E8M0 255, all-zero rows) and numbers that are not
/// finite, each kind once with its count and first place.
std::vector<Suspicion> scan(const TensorView& tensor, Content content);

/// "[3, 0]": the coordinates of an element.
std::string coordinates(const TensorView& tensor, std::size_t element);

}  // namespace mtpcheck
