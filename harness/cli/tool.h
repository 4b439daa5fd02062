#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace mtpcheck::cli {

struct ToolResult {
  int exit_code = -1;
  std::string output;  ///< standard output and error together
};

/// For tests: runs a shell's command.
inline ToolResult run_shell(const std::string& command) {
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("the tool cannot be started");
  ToolResult result;
  std::array<char, 4096> block{};
  while (const std::size_t size = std::fread(block.data(), 1, block.size(), pipe)) {
    result.output.append(block.data(), size);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

/// For tests: runs the tool with a command line as a shell takes it. MTPCHECK_TOOL is its path.
/// tiny-hy4, as a command line names it.
inline const std::string kTiny = MTPCHECK_GOLDEN_DIR "/tiny-hy4";

inline ToolResult run_tool(const std::string& arguments) { return run_shell(MTPCHECK_TOOL " " + arguments); }

/// For tests: a file that the tool wrote as JSON.
inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return nlohmann::json::parse(stream);
}

}  // namespace mtpcheck::cli
