#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace mtpcheck {

/// A file mapped read-only into memory. Movable; the mapping goes with the object.
class MappedFile {
 public:
  /// Throws Error{input} with the path and the system's reason when the file cannot be opened or mapped.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace mtpcheck
