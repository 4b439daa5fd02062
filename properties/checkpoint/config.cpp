// config.json and mtpcheck.json: any value under any key is read, or refused with the key's name; nothing else happens.
#include "reference/model/config.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/checkpoint/bounded_json.h"
#include "harness/checkpoint/checkpoint.h"
#include "reference/model/conventions.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using nlohmann::json;

const json& golden_config() {
  static const json config = open_checkpoint(MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-split").config;
  return config;
}

json any_value() {
  static const std::vector<json> values{nullptr,
                                        true,
                                        0,
                                        1,
                                        2,
                                        7,
                                        -1,
                                        0.5,
                                        1e300,
                                        std::uint64_t{1} << 40,
                                        ~std::uint64_t{0},
                                        "",
                                        "sparse",
                                        json::array(),
                                        json::object(),
                                        json::array({"sparse"}),
                                        json::array({1, 2}),
                                        json{{"rope_type", 1}},
                                        json{{"rope_theta", "a"}}};
  return *rc::gen::elementOf(values);
}

RC_GTEST_PROP(ConfigFiles, AnyValueUnderAnyKeyIsReadOrRefused, ()) {
  json config = golden_config();
  const auto changes = *rc::gen::inRange(1, 4);
  for (int i = 0; i < changes; ++i) {
    auto key = config.begin();
    std::advance(key, *rc::gen::inRange<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(config.size())));
    *key = any_value();
  }
  RC_LOG() << config.dump() << "\n";
  try {
    const HeadConfig read = parse_head_config(config, "config.json");
    RC_ASSERT(read.hidden_size > 0U);
    RC_ASSERT(read.qk_rope_head_dim % 2 == 0U);
    RC_ASSERT(!read.sparse_mlp || read.num_experts_per_tok <= read.n_routed_experts);
    RC_ASSERT(!read.sparse_attention || read.index_head_dim >= read.qk_rope_head_dim);
  } catch (const Error& error) {
    RC_ASSERT(error.failure() == Failure::input);
    RC_ASSERT(std::string(error.what()).starts_with("config.json: "));
  }
}

RC_GTEST_PROP(ConfigFiles, AMutatedDocumentIsParsedOrRefused, ()) {
  std::string text = golden_config().dump();
  const auto edits = *rc::gen::inRange(1, 6);
  for (int i = 0; i < edits; ++i) {
    text[*rc::gen::inRange<std::size_t>(0, text.size())] =
        *rc::gen::oneOf(rc::gen::arbitrary<char>(), rc::gen::elementOf(std::string("{}[]\",:0129-e.\\u")));
  }
  try {
    parse_head_config(parse_bounded_json(text, "config.json"), "config.json");
  } catch (const Error& error) {
    RC_ASSERT(error.failure() == Failure::input);
  }
}

RC_GTEST_PROP(ConfigFiles, ConventionsAreReadOrRefused, ()) {
  const auto key = *rc::gen::oneOf(rc::gen::elementOf(convention_keys()), rc::gen::just(std::string("ropes")));
  const json settings{{key, any_value()}};
  try {
    const auto resolved = resolve_conventions(parse_mtpcheck_json(settings, "mtpcheck.json"), std::nullopt, {});
    RC_ASSERT(resolved.origins.size() == convention_keys().size());
  } catch (const Error& error) {
    RC_ASSERT(error.failure() == Failure::input);
    RC_ASSERT(std::string(error.what()).starts_with("mtpcheck.json: "));
  }
}

// A level sets `rope`: the indexer turns with it, unless the same or a higher level says otherwise.
RC_GTEST_PROP(ConfigFiles, TheHighestLevelThatSpeaksDecides, ()) {
  const auto pairing = [](const char* key) {
    ConventionSettings settings;
    const auto choice = *rc::gen::element(0, 1, 2);
    if (choice > 0) settings[key] = choice == 1 ? "interleaved" : "half-split";
    return settings;
  };
  ConventionSettings file = pairing("rope");
  file.merge(pairing("indexer_rope"));
  ConventionSettings options = pairing("rope");
  options.merge(pairing("indexer_rope"));
  const Conventions values = resolve_conventions(file, std::nullopt, options).values;
  std::string expected = "interleaved";
  for (const ConventionSettings* level : {&file, &options}) {
    if (level->contains("rope")) expected = level->at("rope");
    if (level->contains("indexer_rope")) expected = level->at("indexer_rope");
  }
  RC_ASSERT(to_string(values.indexer_rope) == expected);
  const std::string rope = options.contains("rope") ? options.at("rope")
                           : file.contains("rope")  ? file.at("rope")
                                                    : std::string("interleaved");
  RC_ASSERT(to_string(values.rope) == rope);
}

}  // namespace
}  // namespace mtpcheck
