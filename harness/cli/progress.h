#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace mtpcheck::cli {

/// A line on standard error that says what is being done, redrawn in place; nothing at all where standard error is no
/// terminal. The line is wiped when the object goes.
class Progress {
 public:
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// "reference in float64 …"
  void say(std::string_view doing);

  /// A bar with the time left, "[######      ] 12/30 passages, 8 s left".
  void advance(std::size_t done, std::size_t total, std::string_view unit);

  /// Wipes the line, before something is printed in its place.
  void clear();

 private:
  void draw(const std::string& line);

  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace mtpcheck::cli
