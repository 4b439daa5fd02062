#include "harness/loading/plan/parameter.h"

#include <array>

namespace mtpcheck {

std::string_view to_string(Initial initial) {
  constexpr std::array<std::string_view, 7> kWords{"uninitialized", "zero", "one", "-1", "-inf", "fp32_min", "random"};
  return kWords[static_cast<std::size_t>(initial)];
}

}  // namespace mtpcheck
