#include "harness/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace mtpcheck::cli {

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

void Progress::draw(const std::string& line) {
  if (!terminal_) return;
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::say(std::string_view doing) { draw(fmt::format("{} …", doing)); }

void Progress::advance(std::size_t done, std::size_t total, std::string_view unit) {
  if (!terminal_ || total == 0) return;
  constexpr std::size_t kWidth = 30;
  const std::size_t filled = kWidth * done / total;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const double left = done == 0 ? 0 : elapsed.count() * static_cast<double>(total - done) / static_cast<double>(done);
  draw(
      fmt::format("[{:#<{}}{:<{}}] {}/{} {}, {:.0f} s left", "", filled, "", kWidth - filled, done, total, unit, left));
}

}  // namespace mtpcheck::cli
