#include "harness/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "reference/tensor/error.h"

namespace mtpcheck {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw input_error(fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  struct stat status {};
  const bool is_file = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_file) {
    ::close(descriptor);
    throw input_error(fmt::format("{}: not a regular file", path.string()));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > 0) {
    void* const at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (at == MAP_FAILED) {
      const int reason = errno;
      ::close(descriptor);
      throw input_error(fmt::format("{}: cannot be mapped: {}", path.string(), std::strerror(reason)));
    }
    bytes_ = {static_cast<const std::byte*>(at), size};
  }
  ::close(descriptor);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace mtpcheck
