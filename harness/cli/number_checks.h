#pragma once

#include <string>

/// Checks for CLI11's options, made on the text: empty, or what is wrong with it. Text that is no number passes here
/// and fails at the conversion.
namespace mtpcheck::cli {

/// For options of unsigned types, into which a conversion would wrap a negative number.
std::string not_negative(const std::string& text);

/// A finite number ≥ 0.
std::string finite_not_negative(const std::string& text);

/// A finite number > 0.
std::string finite_positive(const std::string& text);

}  // namespace mtpcheck::cli
