#pragma once

#include <string>

namespace mtpcheck {

/// An exception that the engine's Python raises while it loads. It never leaves a loader's rules: there it becomes an
/// EngineException or a Refusal of the plan.
struct Raised {
  std::string type;     ///< "RuntimeError", …
  std::string message;  ///< torch's words where torch raises; a bare assertion has none
};

}  // namespace mtpcheck
