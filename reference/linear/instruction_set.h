#pragma once

#include <cstdint>

/// Inner loops are compiled several times, for different instruction sets, and chosen at run time.
namespace mtpcheck {

enum class InstructionSet : std::uint8_t {
  baseline,  ///< what the compiler may use everywhere
  avx2,      ///< with FMA
  avx512,    ///< F, BW, VL and DQ
};

/// Whether this machine has it.
bool supported(InstructionSet set);

/// The widest set this machine has; MTPCHECK_KERNELS=baseline|avx2|avx512 chooses a narrower one.
InstructionSet chosen_instruction_set();

}  // namespace mtpcheck
