#pragma once

#include <cstddef>
#include <cstdint>

/// The inner loop of every matrix product, compiled several times for different instruction sets and chosen at run
/// time. Plain structs only: a translation unit with special flags must not emit a function that others share.
namespace mtpcheck::kernel {

/// How a weight element is stored. `scalar` means the kernel's own element type (float or double).
enum class Storage : std::uint8_t { scalar, f32, f64, bf16, f16, e4m3, e5m2 };

enum class ScaleStorage : std::uint8_t { none, f32, bf16, f16, e8m0 };

/// A weight matrix as bytes; see Matrix and Scales in reference/model/weights.h.
struct Weights {
  Storage storage = Storage::scalar;
  const unsigned char* data = nullptr;
  std::size_t row_bytes = 0;  ///< from one row to the next
  ScaleStorage scale_storage = ScaleStorage::none;
  const unsigned char* scales = nullptr;
  std::size_t scale_stride = 0;  ///< cells from one grid row to the next
  std::size_t block_rows = 1;
  std::size_t block_cols = 1;
  std::size_t first_row = 0;
};

/// out[t, r] = Σ_c x[t, c] · w[r, c] for t < tokens and row_begin ≤ r < row_end.
///
/// The sum is defined, not only its result: columns go round robin to `kLaneBytes / sizeof(S)` running sums by fused
/// multiply-add, in blocks of `kBlockBytes / sizeof(S)` columns; a block's sums are added pairwise (i with i + half),
/// and the blocks in ascending order. So an output depends on its own row of x and of w only: not on the number of
/// tokens, not on threads, and not on the width of the machine's vectors, as long as the machine has fused
/// multiply-add.
///
/// x is [tokens, columns rounded up to whole lanes], zero behind `columns`. scratch holds kRows blocks.
template <class S>
struct Product {
  const S* x = nullptr;
  std::size_t x_stride = 0;
  std::size_t tokens = 0;
  Weights weights;
  std::size_t columns = 0;
  std::size_t row_begin = 0;
  std::size_t row_end = 0;
  S* out = nullptr;
  std::size_t out_stride = 0;
  S* scratch = nullptr;
};

inline constexpr std::size_t kLaneBytes = 64;
inline constexpr std::size_t kBlockBytes = 4096;
inline constexpr std::size_t kScratchRows = 8;
inline constexpr std::size_t kScratchBytes = kScratchRows * kBlockBytes;

/// One instruction set's functions.
struct Kernels {
  const char* name;
  void (*product_f32)(const Product<float>&);
  void (*product_f64)(const Product<double>&);
  /// Row `row`, columns [first, first + count), decoded and scaled.
  void (*decode_f32)(const Weights&, std::size_t row, std::size_t first, std::size_t count, float* out);
  void (*decode_f64)(const Weights&, std::size_t row, std::size_t first, std::size_t count, double* out);
};

extern const Kernels kBaseline;
#if defined(__x86_64__)
extern const Kernels kAvx2;
extern const Kernels kAvx512;
#endif

/// Those of the chosen instruction set.
const Kernels& chosen();

}  // namespace mtpcheck::kernel
