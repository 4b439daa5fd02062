// Outputs that would destroy what they are made of, or one another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/tool.h"
#include "reports/schema/report_file.h"
#include "reports/schema/sample_report.h"

namespace mtpcheck::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Copies of a checkpoint, a trace and a report that a mistake may destroy.
class OutputPaths : public testing::Test {
 protected:
  OutputPaths() {
    fs::copy(kTiny + "/checkpoint-bf16", at("w"));
    fs::copy(kTiny + "/traces/passage-00.safetensors", at("p.safetensors"));
    reports::write_report(at("c.h5"), reports::sample_report());
  }

  std::string at(const std::string& name) const { return (scratch_.path() / name).string(); }

  /// The tool must refuse, name both, and leave `kept` as it is.
  void refused(const std::string& arguments, const std::string& one, const std::string& other,
               const std::string& kept) const {
    const std::string before = bytes_of(at(kept));
    const ToolResult result = run_tool(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments << "\n" << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr(one), HasSubstr(other))) << arguments;
    EXPECT_EQ(bytes_of(at(kept)), before) << arguments;
  }

 private:
  ScratchDirectory scratch_;
};

TEST_F(OutputPaths, AnInputIsNotWrittenOver) {
  const std::string inputs = " --inputs " + at("p.safetensors");
  const std::string shard = "w/model-00001-of-00003.safetensors";
  refused("run " + at("w") + inputs + " --out " + at("p.safetensors"), "--out", "--inputs", "p.safetensors");
  refused("run " + at("w") + inputs + " --out " + at(shard), "--out", "CHECKPOINT", shard);
  refused("audit " + at("w") + " --json " + at("w/config.json"), "--json", "CHECKPOINT", "w/config.json");
  refused("headers " + at("w") + " --out " + at("w/config.json"), "--out", "CHECKPOINT", "w/config.json");
  refused("compare " + at("w") + " --candidate reference" + inputs + " --report " + at("p.safetensors"), "--report",
          "--inputs", "p.safetensors");
  refused("compare " + at("w") + inputs + " --candidate dump:" + at("c.h5") + " --json " + at("c.h5"), "--json",
          "--candidate", "c.h5");
  refused("accept " + at("w") + " --traces " + at("p.safetensors") + " --json " + at("p.safetensors"), "--json",
          "--traces", "p.safetensors");
  refused("report html " + at("c.h5") + " --out " + at("c.h5"), "--out", "FILE", "c.h5");
  refused("report json " + at("c.h5") + " --out " + at("c.h5"), "--out", "FILE", "c.h5");
  refused("gate " + at("c.h5") + " --update --baseline " + at("c.h5"), "--baseline", "REPORT", "c.h5");
  refused("gate " + at("c.h5") + " --baseline " + at("w/config.json") + " --junit " + at("c.h5"), "--junit", "REPORT",
          "c.h5");
}

TEST_F(OutputPaths, LinksAndDotsHideNothing) {
  fs::create_directory_symlink(at("w"), at("link"));
  refused("headers " + at("w") + " --out " + at("link/./config.json"), "--out", "CHECKPOINT", "w/config.json");
  refused("headers " + at("link") + " --out " + at("w/../w/config.json"), "--out", "CHECKPOINT", "w/config.json");
  fs::rename(at("w/config.json"), at("blob"));
  fs::create_symlink(at("blob"), at("w/config.json"));
  refused("headers " + at("w") + " --out " + at("blob"), "--out", "CHECKPOINT", "blob");
  EXPECT_EQ(run_tool("headers " + at("w") + " --out " + at("w/headers.json")).exit_code, 0)
      << "a new file may be there";
}

TEST_F(OutputPaths, TwoOutputsAreTwoFilesUnlessADevice) {
  const std::string audit = "audit " + at("w") + " --headers-only";
  refused(audit + " --json " + at("x") + " --report " + at("x"), "--json", "--report", "c.h5");
  EXPECT_FALSE(fs::exists(at("x")));
  EXPECT_EQ(run_tool(audit + " --json /dev/null --junit /dev/null").exit_code, 0);
}

TEST_F(OutputPaths, ASweepDoesNotReplaceAnotherVerbsReport) {
  const std::string accept = "accept " + at("w") + " --traces " + at("p.safetensors") + " --report " + at("c.h5");
  refused(accept, "--report", "accept was expected", "c.h5");
  refused(accept + " --restart", "--report", "accept was expected", "c.h5");
}

TEST_F(OutputPaths, AFaultIsNotInjectedIntoItsSource) {
  const std::string inject = " --fault norm-missing --out ";
  refused("faults inject " + at("w") + inject + at("w/sub"), "--out", "CHECKPOINT", "w/config.json");
  EXPECT_FALSE(fs::exists(at("w/sub")));
}

TEST_F(OutputPaths, AFaultThatCannotBeWrittenLeavesNothing) {
  ASSERT_EQ(run_tool("headers " + at("w") + " --out " + at("headers.json")).exit_code, 0);
  const std::string inject = "faults inject " + at("headers.json") + " --fault norm-missing --out " + at("made/here");
  const ToolResult result = run_tool(inject);
  EXPECT_EQ(result.exit_code, 3) << result.output;
  EXPECT_THAT(result.output, HasSubstr("holds headers only"));
  EXPECT_FALSE(fs::exists(at("made")));
  const std::string full = "faults inject " + at("w") + " --fault norm-missing --out " + at("made/here");
  EXPECT_NE(run_shell("trap '' XFSZ; ulimit -f 8; " MTPCHECK_TOOL " " + full).exit_code, 0);
  EXPECT_FALSE(fs::exists(at("made")));
}

}  // namespace
}  // namespace mtpcheck::cli
