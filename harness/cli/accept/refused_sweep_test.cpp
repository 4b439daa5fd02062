// Sweeps that are refused as a whole, before the first series is computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/accept/short_trace.h"
#include "harness/cli/tool.h"

namespace mtpcheck::cli {
namespace {

namespace fs = std::filesystem;

/// A sweep over the beginning of a trace.
class RefusedSweep : public testing::Test {
 protected:
  /// Exits so, and leaves no report of what it did before.
  void refused(const std::string& options, int exit_code = 2) const {
    const ToolResult result =
        run_tool("accept " + kBf16 + " --traces " + trace_ + " --report " + report().string() + " " + options);
    EXPECT_EQ(result.exit_code, exit_code) << options << "\n" << result.output;
    EXPECT_FALSE(fs::exists(report())) << options;
  }

  std::string trace() const { return trace_; }
  fs::path folder() const { return scratch_.path(); }

 private:
  fs::path report() const { return scratch_.path() / "a.h5"; }

  ScratchDirectory scratch_;
  std::string trace_ = write_whole(scratch_, "short.safetensors", beginning_of(kNatural, 8));
};

TEST_F(RefusedSweep, WhatCannotBeSweptOverIsFoundFirst) {
  refused("--presets vllm,nonsense");
  refused("--head reference,nonsense");
  refused("--dtype f32,nonsense");
  refused("--also /nowhere", 3);
  fs::copy(kTiny + "/checkpoint-split", folder() / "broken");
  fs::resize_file(folder() / "broken" / "config.json", 3);
  refused("--also " + (folder() / "broken").string(), 3);
}

TEST_F(RefusedSweep, NothingIsSweptOverTwice) {
  refused("--presets vllm,vllm");
  refused("--head reference,reference");
  refused("--dtype f32,f32");
  refused("--also " + kBf16 + "/.");
  fs::create_symlink(trace(), folder() / "link.safetensors");
  refused("--traces " + (folder() / "link.safetensors").string());
}

TEST_F(RefusedSweep, DepthsAndCostsHaveBounds) {
  for (const char* depth : {"0", "65", "-1", "100000"}) refused(std::string("--depth ") + depth);
  for (const char* cost : {"nan", "inf", "-1"}) {
    refused(std::string("--draft-cost ") + cost);
    refused(std::string("--draft-cost 0.1 --verify-cost ") + cost);
  }
  refused("--draft-cost 0 --verify-cost 0");
}

}  // namespace
}  // namespace mtpcheck::cli
