#include "reports/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "reference/tensor/error.h"

namespace mtpcheck::reports {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

[[noreturn]] void fail(const std::filesystem::path& path, const char* doing) {
  const int reason = errno;
  throw environment_error(
      fmt::format("{}: {} failed: {}. Nothing was changed there; free space or choose another place.", path.string(),
                  doing, std::strerror(reason)));
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  int get() const { return value_; }
  bool close() { return value_ < 0 || ::close(std::exchange(value_, -1)) == 0; }

 private:
  int value_;
};

/// Removes the temporary file unless it has been renamed.
struct Temporary {
  std::filesystem::path path;
  bool kept = false;
  ~Temporary() {
    if (!kept) ::unlink(path.c_str());
  }
};

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

/// A device, a pipe: written as it is, for a file in its place would not be one.
bool is_special(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

void write_in_place(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0) fail(path, "opening");
  if (!write_all(file.get(), bytes)) fail(path, "writing");
  if (!file.close()) fail(path, "closing");
}

/// Creates and removes a file beside it: permissions alone do not tell (root, read-only and special file systems).
void try_to_create(const std::filesystem::path& path) {
  std::string name = fmt::format("{}/.{}.XXXXXX", folder_of(path).string(), path.filename().string());
  const Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (file.get() < 0) {
    throw environment_error(fmt::format("{}: the folder cannot be written: {}.", path.string(), std::strerror(errno)));
  }
  ::unlink(name.c_str());
}

}  // namespace

void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  if (is_special(path)) return write_in_place(path, bytes);
  std::string name = fmt::format("{}/.{}.XXXXXX", folder_of(path).string(), path.filename().string());
  Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (file.get() < 0) fail(path, "creating a file beside it");
  Temporary temporary{name};
  if (!write_all(file.get(), bytes)) fail(path, "writing");
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(file.get(), 0666 & ~mask) != 0) fail(path, "setting permissions");
  if (::fsync(file.get()) != 0) fail(path, "fsync");
  if (!file.close()) fail(path, "closing");
  if (::rename(name.c_str(), path.c_str()) != 0) fail(path, "renaming into place");
  temporary.kept = true;
  const Descriptor folder(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  write_atomically(path, std::as_bytes(std::span(text)));
}

void require_writable(const std::filesystem::path& path) {
  const auto folder = folder_of(path);
  if (!std::filesystem::is_directory(folder)) {
    throw environment_error(fmt::format("{}: there is no folder {}. Create it first.", path.string(), folder.string()));
  }
  if (std::filesystem::is_directory(path)) {
    throw environment_error(fmt::format("{}: is a folder. Name a file in it.", path.string()));
  }
  if (!is_special(path)) try_to_create(path);
}

}  // namespace mtpcheck::reports
