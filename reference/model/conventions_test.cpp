#include "reference/model/conventions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using ::testing::HasSubstr;

const ResolvedConventions::Origin& origin(const ResolvedConventions& resolved, const std::string& key) {
  for (const auto& one : resolved.origins) {
    if (one.key == key) return one;
  }
  throw std::out_of_range(key);
}

TEST(Conventions, TheBuiltInDefaultIsVllm) {
  const ResolvedConventions resolved = resolve_conventions({}, std::nullopt, {});
  EXPECT_EQ(resolved.values, Conventions{});
  EXPECT_EQ(resolved.origins.size(), convention_keys().size());
  EXPECT_EQ(origin(resolved, "latent_norm_eps").value, "rms_norm_eps");
  EXPECT_EQ(origin(resolved, "k_norm_eps").value, "1e-06");
  EXPECT_EQ(origin(resolved, "rope").level, ConventionLevel::builtin);
}

TEST(Conventions, PresetsDifferAsDocumented) {
  const Conventions hf = resolve_conventions({}, "transformers", {}).values;
  EXPECT_EQ(hf.rope, RopePairing::half_split);
  EXPECT_EQ(hf.indexer_rope, RopePairing::half_split);
  EXPECT_EQ(hf.latent_norm_eps, 1e-6);
  EXPECT_EQ(hf.k_norm_eps, std::nullopt);
  EXPECT_TRUE(hf.group_routing);
  EXPECT_TRUE(hf.position_zero_mask);
  const Conventions sglang = resolve_conventions({}, "sglang", {}).values;
  EXPECT_EQ(sglang.rope, RopePairing::interleaved);
  EXPECT_TRUE(sglang.group_routing);
  EXPECT_FALSE(sglang.position_zero_mask);
  EXPECT_THROW(resolve_conventions({}, "vlm", {}), Error);
}

TEST(Conventions, HigherLevelsWinAndSayWhereTheyCameFrom) {
  const ConventionSettings file{{"rope", "half-split"}, {"k_norm_eps", "1e-7"}, {"hidden_state", "pre-norm"}};
  const auto resolved = resolve_conventions(file, "transformers", {{"k_norm_eps", "rms_norm_eps"}});
  EXPECT_EQ(resolved.values.k_norm_eps, std::nullopt);
  EXPECT_EQ(resolved.values.hidden_state, HiddenState::post_norm) << "a preset sets every key";
  EXPECT_EQ(origin(resolved, "k_norm_eps").level, ConventionLevel::option);
  EXPECT_EQ(origin(resolved, "rope").source, "preset transformers");
  EXPECT_EQ(resolve_conventions(file, std::nullopt, {}).values.hidden_state, HiddenState::pre_norm);
}

TEST(Conventions, RopeAlsoSetsTheIndexersUnlessThatIsSetAtTheSameOrAHigherLevel) {
  const auto pairing = [](const ConventionSettings& file, const ConventionSettings& options) {
    return resolve_conventions(file, std::nullopt, options).values.indexer_rope;
  };
  EXPECT_EQ(pairing({}, {{"rope", "half-split"}}), RopePairing::half_split);
  EXPECT_EQ(pairing({{"rope", "half-split"}, {"indexer_rope", "half-split"}}, {{"rope", "interleaved"}}),
            RopePairing::interleaved);
  EXPECT_EQ(pairing({}, {{"rope", "half-split"}, {"indexer_rope", "interleaved"}}), RopePairing::interleaved);
  EXPECT_EQ(pairing({{"rope", "half-split"}}, {{"indexer_rope", "interleaved"}}), RopePairing::interleaved);
  const auto resolved = resolve_conventions({}, std::nullopt, {{"rope", "half-split"}});
  EXPECT_EQ(origin(resolved, "indexer_rope").level, ConventionLevel::option);
}

TEST(Conventions, MtpcheckJsonTakesTextsNumbersAndFlags) {
  const auto beside_config = nlohmann::json::parse(
      R"({"rope": "half-split", "latent_norm_eps": 1e-05, "indexer_fp8": false, "k_norm_eps": "rms_norm_eps"})");
  const Conventions values =
      resolve_conventions(parse_mtpcheck_json(beside_config, "mtpcheck.json"), std::nullopt, {}).values;
  EXPECT_EQ(values.rope, RopePairing::half_split);
  EXPECT_EQ(values.latent_norm_eps, 1e-5);
  EXPECT_EQ(values.k_norm_eps, std::nullopt);
}

TEST(Conventions, BadSettingsAreRefusedWithTheChoices) {
  const auto failure = [](const char* text) {
    try {
      parse_mtpcheck_json(nlohmann::json::parse(text), "mtpcheck.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::input);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(failure(R"({"rope": "neox"})"), HasSubstr("interleaved or half-split"));
  EXPECT_THAT(failure(R"({"ropes": "half-split"})"), HasSubstr("there is no convention \"ropes\""));
  EXPECT_THAT(failure(R"({"k_norm_eps": -1})"), HasSubstr("k_norm_eps is \"-1\""));
  EXPECT_THAT(failure(R"({"indexer_fp8": null})"), HasSubstr("true or false"));
  EXPECT_THAT(failure(R"([])"), HasSubstr("not a JSON object"));
  try {
    resolve_conventions({}, std::nullopt, {{"rope", "neox"}});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::usage);
  }
}

}  // namespace
}  // namespace mtpcheck
