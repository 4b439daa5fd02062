#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mtpcheck {

enum class Severity : std::uint8_t {
  info,     ///< odd, and without consequence
  warning,  ///< whether it matters is decided later
  error,    ///< the head computes something else than was meant, or the load stops
};

/// "info", "warning", "error"
std::string_view to_string(Severity severity);

/// Who is at fault: the files, or a loader that makes something else of sound files.
enum class Cause : std::uint8_t { checkpoint, loader };

/// "checkpoint", "loader"
std::string_view to_string(Cause cause);

/// One statement of an audit: a difference between the parameters as meant by the files and as loaded.
struct Finding {
  std::string id;  ///< one of `finding_ids`; stable
  Severity severity = Severity::error;
  Cause cause = Cause::checkpoint;
  std::string subject;  ///< the engine's parameter, the checkpoint's tensor, a file or a config key
  std::string found;
  std::string expected;
  std::string engine_says;  ///< what the engine prints or raises; empty: nothing
};

/// One line for a person.
std::string describe(const Finding& finding);

/// An id and what it means. docs/findings.md explains each of them.
struct FindingId {
  std::string_view id;
  std::string_view meaning;
};

std::span<const FindingId> finding_ids();

}  // namespace mtpcheck
