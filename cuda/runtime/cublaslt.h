#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The functions of libcublasLt, found at run time: a library of half a gigabyte that most commands do without, and
/// that a machine with a driver need not have.
struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtGetStatusString) status_string;

  /// nullptr where the library is not installed, or lacks one of them.
  static const CublasLt* load();

  /// Throws Error{environment} unless success: "cublasLtMatmul of [64, 6144] · [16384, 6144]ᵀ on NVIDIA H200: …".
  void check(cublasStatus_t status, const std::string& what) const;
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
