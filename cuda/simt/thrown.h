#pragma once

#include <exception>
#include <string>

namespace simt {

/// For tests: the message of what `action` throws, or "(nothing)".
template <class Action>
std::string thrown(Action action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "(nothing)";
}

}  // namespace simt
