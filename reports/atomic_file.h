#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace mtpcheck::reports {

/// Writes a file as a whole: to a temporary file in the same folder, fsync, rename, fsync of the folder. Whatever
/// happens in between, `path` holds either what it held before or all of `bytes`. A device or a pipe is written as it
/// is. Throws Error{environment} with the path and the system's reason.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_atomically(const std::filesystem::path& path, std::string_view text);

/// Throws Error{environment} when `path` could not be written: for use before a long computation.
void require_writable(const std::filesystem::path& path);

}  // namespace mtpcheck::reports
