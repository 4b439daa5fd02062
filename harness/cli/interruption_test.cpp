// Whatever interrupts the tool, a report's name holds the old report or the new one, whole; and it says what happened.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/tool.h"
#include "reference/random/philox.h"
#include "reports/schema/report_file.h"

namespace mtpcheck::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kKills = 50;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> compare(const fs::path& folder, std::size_t tokens) {
  return {"compare",     MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-bf16",
          "--tokens",    std::to_string(tokens),
          "--candidate", "reference",
          "--report",    (folder / "out.h5").string(),
          "--json",      (folder / "out.json").string()};
}

std::string joined(const std::vector<std::string>& arguments) {
  std::string text;
  for (const auto& argument : arguments) text += " " + argument;
  return text;
}

pid_t started(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), MTPCHECK_TOOL);
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  ::execv(pointers.front(), pointers.data());
  ::_exit(127);
}

/// Kills fifty runs, half of them at any time and half of them in their last fifth, where they write.
void kill_at_random(const std::vector<std::string>& arguments, const std::function<void()>& check) {
  const auto start = Clock::now();
  int status = 0;
  ::waitpid(started(arguments), &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 0);
  const std::chrono::duration<double> whole = Clock::now() - start;
  const RandomStream random(7, 0);
  int killed = 0;
  for (int i = 0; i < kKills; ++i) {
    const double share = i % 2 == 0 ? random.uniform(i) : 0.8 + 0.25 * random.uniform(i);
    const pid_t child = started(arguments);
    std::this_thread::sleep_for(whole * share);
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    check();
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(killed, kKills / 4);
}

TEST(Killed, CompareLeavesTheOldReportOrTheNewOne) {
  const ScratchDirectory folder;
  ASSERT_EQ(run_tool(joined(compare(folder.path(), 2))).exit_code, 0);
  kill_at_random(compare(folder.path(), 3), [&] {
    const auto report = reports::read_report(folder.path() / "out.h5");
    ASSERT_TRUE(report.comparison->tokens == 2 || report.comparison->tokens == 3);
    ASSERT_EQ(report.comparison->stages.size(), 33u);
    const auto json = read_json(folder.path() / "out.json");
    ASSERT_TRUE(json["tokens"] == 2 || json["tokens"] == 3);
  });
}

TEST(Killed, HtmlLeavesTheOldPageOrTheNewOne) {
  const ScratchDirectory folder;
  const std::string page = (folder.path() / "page.html").string();
  ASSERT_EQ(run_tool(joined(compare(folder.path(), 2))).exit_code, 0);
  const std::vector<std::string> html = {"report", "html", (folder.path() / "out.h5").string(), "--out", page};
  ASSERT_EQ(run_tool(joined(html)).exit_code, 0);
  const std::string old_page = content(page);
  ASSERT_EQ(run_tool(joined(compare(folder.path(), 3))).exit_code, 0);
  ASSERT_EQ(run_tool(joined(html)).exit_code, 0);
  const std::string new_page = content(page);
  ASSERT_NE(old_page, new_page);
  kill_at_random(html, [&] {
    const std::string found = content(page);
    ASSERT_TRUE(found == old_page || found == new_page);
    std::ofstream(page, std::ios::binary | std::ios::trunc) << old_page;
  });
}

/// What a disk that fills up half-way does: no file may grow beyond 1 KiB.
ToolResult run_on_a_full_disk(const std::string& arguments) {
  return run_shell("ulimit -f 2; trap '' XFSZ; exec " MTPCHECK_TOOL " " + arguments);
}

TEST(FullDisk, LeavesTheOldReportAndSaysSo) {
  const ScratchDirectory folder;
  const std::string report = (folder.path() / "out.h5").string();
  const std::string page = (folder.path() / "page.html").string();
  ASSERT_EQ(run_tool(joined(compare(folder.path(), 2))).exit_code, 0);
  ASSERT_EQ(run_tool("report html " + report + " --out " + page).exit_code, 0);
  const std::string old_report = content(report);
  const std::string old_json = content(folder.path() / "out.json");
  const std::string old_page = content(page);
  const auto fails = [&](const std::string& arguments) {
    const auto result = run_on_a_full_disk(arguments);
    EXPECT_EQ(result.exit_code, 4) << arguments;
    EXPECT_NE(result.output.find("File too large"), std::string::npos) << result.output;
  };
  const std::string head = joined(compare(folder.path(), 3));
  fails(head);
  fails(head.substr(0, head.find(" --report")) + " --json " + (folder.path() / "out.json").string());
  fails("report html " + report + " --out " + page);
  fails("report json " + report + " --out " + (folder.path() / "out.json").string());
  EXPECT_EQ(content(report), old_report);
  EXPECT_EQ(content(folder.path() / "out.json"), old_json);
  EXPECT_EQ(content(page), old_page);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 3);  // no temporary file is left
}

TEST(FullDisk, ADeviceIsWrittenAndNotReplaced) {
  const ScratchDirectory folder;
  ASSERT_EQ(run_tool(joined(compare(folder.path(), 2))).exit_code, 0);
  const std::string report = (folder.path() / "out.h5").string();
  const auto full = run_tool("report html " + report + " --out /dev/full");
  EXPECT_EQ(full.exit_code, 4);
  EXPECT_NE(full.output.find("/dev/full: writing failed: No space left on device"), std::string::npos) << full.output;
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_EQ(run_tool("report html " + report + " --out /dev/null").exit_code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(UnwritableFolder, IsSaidBeforeAnythingIsComputed) {
  const ScratchDirectory folder;
  const fs::path locked = folder.path() / "locked";
  ASSERT_EQ(run_tool(joined(compare(folder.path(), 2))).exit_code, 0);
  fs::create_directory(locked);
  fs::permissions(locked, fs::perms::owner_read | fs::perms::owner_exec);
  std::vector<std::string> places = {"/proc/out", (folder.path() / "absent" / "out").string()};
  if (::geteuid() != 0) places.push_back((locked / "out").string());  // root writes everywhere but in /proc
  const std::string head = joined(compare(folder.path(), 3));
  for (const auto& place : places) {
    for (const std::string output : {" --report ", " --json "}) {
      const auto result = run_tool(head.substr(0, head.find(" --report")) + output + place);
      EXPECT_EQ(result.exit_code, 4) << place;
      EXPECT_NE(result.output.find(place + ": "), std::string::npos) << result.output;
      EXPECT_EQ(result.output.find("verdict"), std::string::npos) << result.output;
    }
    const auto html = run_tool("report html " + (folder.path() / "out.h5").string() + " --out " + place);
    EXPECT_EQ(html.exit_code, 4) << place;
    EXPECT_NE(html.output.find(place + ": "), std::string::npos) << html.output;
  }
}

}  // namespace
}  // namespace mtpcheck::cli
