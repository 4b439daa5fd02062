#include "reference/linear/instruction_set.h"

#include <cstdlib>
#include <string_view>

namespace mtpcheck {
namespace {

InstructionSet widest_wished() {
  const char* const text = std::getenv("MTPCHECK_KERNELS");
  const std::string_view wish = text == nullptr ? "" : text;
  if (wish == "baseline") return InstructionSet::baseline;
  if (supported(InstructionSet::avx512) && wish != "avx2") return InstructionSet::avx512;
  return supported(InstructionSet::avx2) ? InstructionSet::avx2 : InstructionSet::baseline;
}

}  // namespace

bool supported(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx512) {
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  }
  if (set == InstructionSet::avx2) return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#endif
  return set == InstructionSet::baseline;
}

InstructionSet chosen_instruction_set() {
  static const InstructionSet chosen = widest_wished();
  return chosen;
}

}  // namespace mtpcheck
