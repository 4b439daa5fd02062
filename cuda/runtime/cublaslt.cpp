#include "cuda/runtime/cublaslt.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <optional>

#include "cuda/runtime/status.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::optional<CublasLt> open_library() {
  // The library stays open as long as the process: its destructors must not run before those of statics that use it.
  void* library = dlopen(("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  CublasLt lt{};
  const bool all = find(library, "cublasLtCreate", lt.create) && find(library, "cublasLtDestroy", lt.destroy) &&
                   find(library, "cublasLtMatmulDescCreate", lt.desc_create) &&
                   find(library, "cublasLtMatmulDescDestroy", lt.desc_destroy) &&
                   find(library, "cublasLtMatmulDescSetAttribute", lt.desc_set) &&
                   find(library, "cublasLtMatrixLayoutCreate", lt.layout_create) &&
                   find(library, "cublasLtMatrixLayoutDestroy", lt.layout_destroy) &&
                   find(library, "cublasLtMatrixLayoutSetAttribute", lt.layout_set) &&
                   find(library, "cublasLtMatmulPreferenceCreate", lt.preference_create) &&
                   find(library, "cublasLtMatmulPreferenceDestroy", lt.preference_destroy) &&
                   find(library, "cublasLtMatmulPreferenceSetAttribute", lt.preference_set) &&
                   find(library, "cublasLtMatmulAlgoGetHeuristic", lt.heuristic) &&
                   find(library, "cublasLtMatmul", lt.matmul) &&
                   find(library, "cublasLtGetStatusString", lt.status_string);
  return all ? std::optional(lt) : std::nullopt;
}

}  // namespace

const CublasLt* CublasLt::load() {
  static const std::optional<CublasLt> library = open_library();
  return library ? &*library : nullptr;
}

void CublasLt::check(cublasStatus_t status, const std::string& what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw environment_error(fmt::format("{} on {}: {}", what, device_name(), status_string(status)));
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
