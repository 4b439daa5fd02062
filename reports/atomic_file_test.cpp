#include "reports/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

/// A process that does nothing but write one file, all of one letter, then of the next.
[[noreturn]] void write_for_ever(const std::filesystem::path& path) {
  for (char letter = 'a';; letter = letter == 'z' ? 'a' : static_cast<char>(letter + 1)) {
    write_atomically(path, bytes(std::string(200'000, letter)));
  }
}

TEST(AtomicFile, AKilledWriterLeavesAWholeFile) {
  const auto folder = fresh_folder("killed");
  write_atomically(folder / "a", bytes(std::string(200'000, 'A')));
  for (int attempt = 0; attempt < 50; ++attempt) {
    const pid_t writer = ::fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) write_for_ever(folder / "a");
    ::usleep(static_cast<useconds_t>((attempt * 7919) % 5000));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    const std::string found = content(folder / "a");
    ASSERT_EQ(found.size(), 200'000u) << attempt;
    ASSERT_EQ(found.find_first_not_of(found.front()), std::string::npos) << attempt;
  }
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
