#include "cuda/runtime/gemm_library.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

struct GemmLibrary::State {};

GemmLibrary::GemmLibrary() = default;
GemmLibrary::~GemmLibrary() = default;

bool GemmLibrary::multiply(Stream /*stream*/, const Linear& /*linear*/, const LinearSegment& /*segment*/) {
  return false;
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
