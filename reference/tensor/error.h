#pragma once

#include <stdexcept>
#include <string>

namespace mtpcheck {

/// Why an operation could not be carried out; the values are the process's exit codes.
/// (Exit code 1, "the check does not hold", is a result and never an error.)
enum class Failure {
  usage = 2,        ///< the command line is wrong
  input = 3,        ///< an input cannot be read or is malformed
  environment = 4,  ///< the environment lacks something: no GPU, no file space
};

/// The one exception of the project. The message names the file, the tensor and the offset, what was found, what was
/// expected and what to do; `main` prints it and exits with the failure's code.
class Error : public std::runtime_error {
 public:
  Error(Failure failure, const std::string& message) : std::runtime_error(message), failure_(failure) {}

  Failure failure() const { return failure_; }

 private:
  Failure failure_;
};

inline Error input_error(const std::string& message) { return Error(Failure::input, message); }
inline Error usage_error(const std::string& message) { return Error(Failure::usage, message); }
inline Error environment_error(const std::string& message) { return Error(Failure::environment, message); }

}  // namespace mtpcheck
