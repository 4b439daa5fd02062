#include "harness/loading/rules.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

TEST(Loaders, AnEngineAloneIsItsNewestVersionAndOldOnesStaySelectable) {
  const std::array<LoaderRules, 3> known{
      {{"sglang", "0.5.23", nullptr}, {"vllm", "0.34.0", nullptr}, {"vllm", "0.33.0", nullptr}}};
  EXPECT_EQ(find_loader(known, "vllm"), &known[1]);
  EXPECT_EQ(find_loader(known, "vllm@0.34.0"), &known[1]);
  EXPECT_EQ(find_loader(known, "vllm@0.33.0"), &known[2]);
  EXPECT_EQ(find_loader(known, "sglang"), &known[0]);
  for (const char* unknown : {"vllm@0.3", "vllm@", "vll", "", "@0.33.0", "vllm@0.33.0@"}) {
    EXPECT_EQ(find_loader(known, unknown), nullptr) << unknown;
  }
}

TEST(Loaders, EachIsFoundByEngineAndVersionAndStandsInOrder) {
  ASSERT_FALSE(loaders().empty());
  const LoaderRules* before = nullptr;
  for (const LoaderRules& rules : loaders()) {
    EXPECT_EQ(find_loader(std::string(rules.engine) + "@" + std::string(rules.version)), &rules);
    EXPECT_NE(rules.plan, nullptr);
    if (before != nullptr) {
      EXPECT_LE(before->engine, rules.engine);
    }
    before = &rules;
  }
}

TEST(Loaders, AnUnknownNameIsToldTheKnownOnes) {
  EXPECT_EQ(&require_loader("vllm@0.33.0"), find_loader("vllm"));
  try {
    require_loader("vllm@0.1");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::usage);
    const std::string message = error.what();
    EXPECT_NE(message.find("vllm@0.1"), std::string::npos) << message;
    for (const LoaderRules& rules : loaders()) {
      const std::string name = std::string(rules.engine) + "@" + std::string(rules.version);
      EXPECT_NE(message.find(name), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace mtpcheck
