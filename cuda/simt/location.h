#pragma once

#include <source_location>

namespace simt {

/// Where a kernel calls the layer: file, line and column, which tells two barriers on one line apart. Functions take it
/// as a defaulted argument, Location::current().
#if defined(__cpp_lib_source_location)

using Location = std::source_location;

#else  // clang before 16

class Location {
 public:
  static constexpr Location current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE(),
                                    unsigned column = __builtin_COLUMN()) {
    Location location;
    location.file_ = file;
    location.line_ = line;
    location.column_ = column;
    return location;
  }

  constexpr const char* file_name() const { return file_; }
  constexpr unsigned line() const { return line_; }
  constexpr unsigned column() const { return column_; }

 private:
  const char* file_ = "";
  unsigned line_ = 0;
  unsigned column_ = 0;
};

#endif

}  // namespace simt
