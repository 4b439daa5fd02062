#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/tensor/dtype.h"

namespace mtpcheck {

/// How one module's weight is stored: what decides which parameters an engine creates for it.
struct Scheme {
  enum class Kind : std::uint8_t {
    none,         ///< BF16
    fp8_block,    ///< FP8 with a float32 (or E8M0) scale a block
    fp8_channel,  ///< FP8 with a float32 scale a row
    fp8_tensor,   ///< FP8 with a float32 scale a projection
    mxfp8,        ///< FP8 with an E8M0 byte for 32 columns
    nvfp4,        ///< two E2M1 a byte, an E4M3 scale a group of columns and a float32 one a projection
  };

  /// Whose quantisation it is: the same kind has other parameter names, initial values and loaders in each.
  enum class Method : std::uint8_t { fp8, modelopt, compressed_tensors };

  Kind kind = Kind::none;
  Method method = Method::fp8;
  std::size_t block_rows = 128;          ///< fp8_block
  std::size_t block_cols = 128;          ///< fp8_block
  std::size_t group = 16;                ///< columns a scale, nvfp4
  Dtype scale_dtype = Dtype::f32;        ///< fp8_block of linears: f32 or f8_e8m0
  bool static_activation = false;        ///< there is an input_scale
  bool activation_scale_unused = false;  ///< nvfp4 weight-only: input_scale is read and dropped, initially NaN

  /// ModelOpt's own block and channel layouts differ in shape: scales [rows] and [⌈rows/128⌉, 1, columns/128, 1].
  bool modelopt_layout = false;
};

}  // namespace mtpcheck
