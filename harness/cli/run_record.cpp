#include "harness/cli/run_record.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "reports/version.h"

namespace mtpcheck::cli {
namespace {

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line;
  for (std::string word; std::getline(file, word, '\0');) {
    if (line.empty()) word = std::filesystem::path(word).filename().string();
    if (!line.empty()) line += ' ';
    line += shell_word(word);
  }
  return line;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(':');
    return colon == std::string::npos ? line : line.substr(std::min(colon + 2, line.size()));
  }
  return {};
}

}  // namespace

std::string shell_word(const std::string& word) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '\0'; };
  const std::string harmless = "-_=./:,+@%";
  const bool safe = !word.empty() && std::ranges::all_of(word, [&](char c) {
    return plain(c) || harmless.find(c) != std::string::npos;
  });
  if (safe) return word;
  std::string quoted(1, '\'');
  for (const char c : word) {
    if (c == '\'') quoted += "'\\'";
    quoted += c;
  }
  quoted += '\'';
  return quoted;
}

reports::RunRecord describe_run() {
  reports::RunRecord run;
  run.tool_version = std::string(version());
  run.command_line = command_line();
  utsname names{};
  if (uname(&names) == 0) {
    run.host = names.nodename;
    run.system = std::string(names.sysname) + " " + names.release + " " + names.machine;
  }
  run.processor = processor();
  run.processors = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  return run;
}

}  // namespace mtpcheck::cli
