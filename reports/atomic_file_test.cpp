#include "reports/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include "reference/tensor/error.h"

namespace mtpcheck::reports {
namespace {

std::filesystem::path fresh_folder(const std::string& name) {
  auto folder = std::filesystem::temp_directory_path() / ("mtpcheck_atomic_" + name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(AtomicFile, ReplacesWhatWasThereAndLeavesNothingBeside) {
  const auto folder = fresh_folder("replaces");
  write_atomically(folder / "a", bytes("old"));
  write_atomically(folder / "a", bytes("new and longer"));
  EXPECT_EQ(content(folder / "a"), "new and longer");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

/// Files may not grow beyond `bytes` while it lives: a write that fails half-way, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(AtomicFile, AWriteThatFailsHalfWayKeepsTheOldFile) {
  const auto folder = fresh_folder("half_way");
  write_atomically(folder / "a", bytes("old"));
  {
    const FileSizeLimit limit(100);
    EXPECT_THROW(write_atomically(folder / "a", bytes(std::string(1000, 'x'))), Error);
  }
  EXPECT_EQ(content(folder / "a"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(AtomicFile, SaysBeforehandThatAPlaceCannotBeWritten) {
  const auto folder = fresh_folder("beforehand");
  require_writable(folder / "report.h5");
  try {
    require_writable(folder / "absent" / "report.h5");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::environment);
    EXPECT_NE(std::string(error.what()).find("absent"), std::string::npos);
  }
  EXPECT_THROW(require_writable(folder), Error);
}

}  // namespace
}  // namespace mtpcheck::reports
