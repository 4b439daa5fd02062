#include "reference/linear/kernel.h"

#include <cstdlib>
#include <string_view>

namespace mtpcheck::kernel {
namespace {

const Kernels& choose() {
  const char* const text = std::getenv("MTPCHECK_KERNELS");
  const std::string_view wish = text == nullptr ? "" : text;
  if (wish == "baseline") return kBaseline;
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                      __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  if (avx512 && wish != "avx2") return kAvx512;
  if (avx2) return kAvx2;
#endif
  return kBaseline;
}

}  // namespace

const Kernels& chosen() {
  static const Kernels& kernels = choose();
  return kernels;
}

}  // namespace mtpcheck::kernel
