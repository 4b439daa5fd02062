#pragma once

#include <cstddef>

namespace mtpcheck {

/// Bytes of a vector of the instruction set that the file at hand is compiled for. Of internal linkage: files with
/// different flags have different ones.
#if defined(__AVX512F__)
constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif

}  // namespace mtpcheck
