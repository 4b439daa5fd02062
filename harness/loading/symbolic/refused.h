#pragma once

#include <string>

namespace mtpcheck {

/// The engine stops while it reads the configuration or builds the model. Thrown inside the rules, where it becomes the
/// plan's Refusal.
struct Refused {
  std::string config_key;
  std::string type;
  std::string message;
};

}  // namespace mtpcheck
