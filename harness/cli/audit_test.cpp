#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/tool.h"
#include "harness/loading/audit/finding.h"

namespace mtpcheck::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A copy of tiny-hy4's sharded checkpoint that may be damaged.
class AuditVerb : public testing::Test {
 protected:
  AuditVerb() { fs::copy(kTiny + "/checkpoint-bf16", checkpoint()); }

  fs::path path(const std::string& name) const { return scratch_.path() / name; }
  std::string checkpoint() const { return path("checkpoint").string(); }
  fs::path shard() const { return path("checkpoint") / "model-00003-of-00003.safetensors"; }

  /// Writes the shard's bytes with `edit` applied.
  template <class Edit>
  void damage(Edit edit) const {
    std::string bytes = read(shard());
    edit(bytes);
    std::ofstream(shard(), std::ios::binary) << bytes;
  }

  /// Runs the audit, which must end with `exit_code`; gives its findings' ids.
  std::vector<std::string> findings(int exit_code, const std::string& options = "") const {
    const auto json = path("audit.json");
    const ToolResult result = run_tool("audit " + checkpoint() + " " + options + " --json " + json.string());
    EXPECT_EQ(result.exit_code, exit_code) << result.output;
    std::vector<std::string> ids;
    const Json audited = read_json(json);
    for (const auto& finding : audited.at("findings")) ids.push_back(finding.at("id").get<std::string>());
    return ids;
  }

 private:
  ScratchDirectory scratch_;
};

TEST(AuditOfTinyHy4, AllFourFormatsLoadWithoutAWord) {
  const ScratchDirectory scratch;
  const auto json = (scratch.path() / "a.json").string();
  for (const char* format : {"bf16", "split", "fp8-block", "mxfp8"}) {
    const ToolResult result =
        run_tool("audit " + kTiny + "/checkpoint-" + format + " --fail-on warning --json " + json);
    EXPECT_EQ(result.exit_code, 0) << format << result.output;
    const Json audited = read_json(json);
    EXPECT_TRUE(audited.at("warnings").empty()) << format;
    EXPECT_TRUE(audited.at("unassigned").empty()) << format;
    EXPECT_TRUE(audited.at("findings").empty()) << format;
    EXPECT_EQ(audited.at("verdict"), "pass");
  }
}

TEST_F(AuditVerb, WritesWhatTheRecordedCasesHold) {
  EXPECT_TRUE(findings(0, "--digest --junit " + path("a.xml").string() + " --report " + path("a.h5").string()).empty());
  const Json audited = read_json(path("audit.json"));
  const auto& head = audited.at("params").at(0);
  for (const char* key : {"name", "dtype", "shape", "status", "coverage", "missing", "slices", "sha256"}) {
    EXPECT_TRUE(head.contains(key)) << key;
  }
  const auto& tensor = audited.at("tensors").at(0);
  for (const char* key : {"name", "dtype", "shape", "outcome", "loads"}) EXPECT_TRUE(tensor.contains(key)) << key;
  EXPECT_THAT(read(path("a.xml")), HasSubstr("fused_qkv_a_proj"));
  EXPECT_EQ(read(path("a.h5")).substr(1, 3), "HDF");
}

TEST_F(AuditVerb, SlicesNameTheBytesInTheFile) {
  findings(0);
  bool seen = false;
  const Json audited = read_json(path("audit.json"));
  for (const auto& parameter : audited.at("params")) {
    if (parameter.at("name") != "model.layers.4.enorm.weight") continue;
    seen = true;
    const auto& slice = parameter.at("slices").at(0);
    EXPECT_EQ(slice.at("file"), "model-00003-of-00003.safetensors");
    EXPECT_EQ(slice.at("length"), 512);
    EXPECT_LE(slice.at("offset").get<std::size_t>() + 512, fs::file_size(shard()));
  }
  EXPECT_TRUE(seen);
}

TEST_F(AuditVerb, HeadersSayTheSameWithoutTheData) {
  const auto headers = path("headers.json").string();
  ASSERT_EQ(run_tool("headers " + checkpoint() + " > " + headers).exit_code, 0);
  EXPECT_LT(fs::file_size(headers), 20000U);
  const ToolResult result = run_tool("audit " + headers + " --json " + path("h.json").string());
  EXPECT_EQ(result.exit_code, 0) << result.output;
  findings(0, "--headers-only");
  EXPECT_EQ(read_json(path("h.json")).at("params"), read_json(path("audit.json")).at("params"));
}

TEST_F(AuditVerb, ComparesWithTheDigestsOfARunningEngine) {
  findings(0, "--digest");
  Json digests = {{"moment", "return of load_weights"}, {"params", Json::object()}};
  const Json audited = read_json(path("audit.json"));
  for (const auto& parameter : audited.at("params")) {
    digests["params"][parameter.at("name").get<std::string>()] = {
        {"dtype", parameter.at("dtype")}, {"shape", parameter.at("shape")}, {"sha256", parameter.at("sha256")}};
  }
  const auto write = [&] { std::ofstream(path("digests.json")) << digests.dump(); };
  const std::string against = "--against " + path("digests.json").string();
  write();
  EXPECT_TRUE(findings(0, against).empty());

  auto& norm = digests["params"]["model.layers.4.enorm.weight"];
  norm["sha256"] = std::string(64, '0');
  digests["params"].erase("model.layers.4.hnorm.weight");
  write();
  EXPECT_EQ(findings(1, against), (std::vector<std::string>{"digest-differs", "digest-missing"}));

  digests["moment"] = "process_weights_after_loading";
  write();
  const ToolResult refused = run_tool("audit " + checkpoint() + " " + against);
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.output, HasSubstr("not when load_weights returned"));
}

TEST_F(AuditVerb, AMissingTensorFailsAndTheReproReruns) {
  damage([](std::string& bytes) {
    const std::string name = "model.mtp_layers.0.hnorm.weight";
    bytes.replace(bytes.find(name), name.size(), "model.mtp_layers.0.hnorm.weighs");
  });
  const ToolResult result = run_tool("audit " + checkpoint());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("unassigned  model.layers.4.hnorm.weight"));
  EXPECT_THAT(result.output, HasSubstr("repro: mtpcheck audit " + checkpoint()));
}

TEST_F(AuditVerb, F01AMissingShardEndsWithThreeAndItsFinding) {
  fs::remove(shard());
  EXPECT_EQ(findings(3), (std::vector<std::string>{"shard-missing"}));
  EXPECT_FALSE(fs::exists(path("a.h5")));
}

TEST_F(AuditVerb, F01ATensorElsewhereThanTheIndexSaysIsAFinding) {
  const auto index = path("checkpoint") / "model.safetensors.index.json";
  Json json = read_json(index);
  json["weight_map"]["model.mtp_layers.0.enorm.weight"] = "model-00001-of-00003.safetensors";
  std::ofstream(index) << json.dump();
  EXPECT_EQ(findings(1), (std::vector<std::string>{"index-mismatch"}));
}

TEST_F(AuditVerb, F02AShortShardIsNeverReadAsZeros) {
  fs::resize_file(shard(), fs::file_size(shard()) - 512);
  EXPECT_EQ(findings(3), (std::vector<std::string>{"truncated"}));
}

TEST_F(AuditVerb, F03OneNameInTwoShards) {
  fs::copy_file(shard(), path("checkpoint") / "model-00002-of-00003.safetensors", fs::copy_options::overwrite_existing);
  const auto ids = findings(1);
  EXPECT_THAT(ids, ::testing::Contains("duplicate-tensor"));
}

TEST_F(AuditVerb, F03OneNameTwiceInAHeader) {
  damage([](std::string& bytes) {
    const std::string name = "model.mtp_layers.0.hnorm.weight";
    bytes.replace(bytes.find(name), name.size(), "model.mtp_layers.0.enorm.weight");
  });
  EXPECT_EQ(findings(3), (std::vector<std::string>{"corrupt-header"}));
}

TEST_F(AuditVerb, F04MalformedHeadersEndWithThree) {
  const std::string whole = read(shard());
  const std::vector<std::function<void(std::string&)>> damages = {
      [](std::string& b) { std::memset(b.data(), 0xFF, 8); },                         // length 2^64 − 1
      [](std::string& b) { b[7] = '\x80'; },                                          // length beyond 2^63
      [](std::string& b) { b[8] = '['; },                                             // no object
      [](std::string& b) { b.replace(b.find("BF16"), 4, "BF17"); },                   // unknown dtype
      [](std::string& b) { b.replace(b.find("\"BF16\""), 6, "\"F32\" "); },           // size ≠ shape × dtype
      [](std::string& b) { b[b.find("enorm")] = '\xFF'; },                            // bad UTF-8
      [](std::string& b) { b += std::string(16, 'x'); },                              // trailing bytes
      [](std::string& b) { b.replace(b.find("data_offsets"), 12, "data_offsetz"); },  // a key is missing
  };
  for (std::size_t i = 0; i < damages.size(); ++i) {
    damage([&](std::string& bytes) {
      bytes = whole;
      damages[i](bytes);
    });
    EXPECT_EQ(findings(3), (std::vector<std::string>{"corrupt-header"})) << "damage " << i;
  }
}

TEST_F(AuditVerb, AConfigWithoutLayersEndsWithThreeAndNoReport) {
  const auto config = path("checkpoint") / "config.json";
  Json json = read_json(config);
  json.erase("num_hidden_layers");
  std::ofstream(config) << json.dump();
  EXPECT_EQ(findings(3, "--report " + path("a.h5").string()), (std::vector<std::string>{"corrupt-config"}));
  EXPECT_FALSE(fs::exists(path("a.h5")));
}

TEST(AuditOptions, WrongOnesEndWithTwo) {
  const std::string checkpoint = kTiny + "/checkpoint-split";
  for (const char* options : {"--loader nobody", "--tp-size 2 --tp-rank 2", "--fail-on never", "--kv-cache-dtype int3",
                              "--loader none --against nothing.json", "--headers-only --against nothing.json",
                              "--loader vllm,vllm@0.33.0", "--loader vllm,none", "--loader vllm,nobody"}) {
    EXPECT_EQ(run_tool("audit " + checkpoint + " " + options).exit_code, 2) << options;
  }
  EXPECT_EQ(run_tool("audit " + checkpoint + " --loader none").exit_code, 0);
  EXPECT_EQ(run_tool("audit --loader vllm@0.33.0 " + checkpoint).exit_code, 0);
  EXPECT_EQ(run_tool("audit " + checkpoint + " --tp-size 2 --tp-rank 1").exit_code, 0);
  EXPECT_EQ(run_tool("audit /nowhere").exit_code, 3);
}

TEST(AuditDocs, EveryIdIsExplained) {
  const std::string docs = read(fs::path(MTPCHECK_GOLDEN_DIR) / "../docs/findings.md");
  for (const auto& [id, meaning] : finding_ids()) {
    EXPECT_THAT(docs, HasSubstr("| `" + std::string(id) + "` |"));
    EXPECT_FALSE(meaning.empty());
  }
}

}  // namespace
}  // namespace mtpcheck::cli
