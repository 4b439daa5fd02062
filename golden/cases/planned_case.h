#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "golden/cases/loader_case.h"
#include "golden/cases/loader_outcome.h"
#include "harness/loading/plan/coverage.h"
#include "harness/loading/rules.h"

/// For tests: a recorded case in memory, and what an engine's rules make of it.
namespace mtpcheck::golden {

struct PlannedCase {
  /// loader  "vllm@0.33.0"
  /// changes  keys of config.json that were set otherwise for this engine, as JSON
  PlannedCase(LoaderCase loader_case, const std::string& loader, const std::map<std::string, std::string>& changes = {})
      : made(changed(std::move(loader_case), changes)), config(parse_head_config(made.config, made.name)) {
    for (const auto& [file, tensors] : made.files) {
      for (const auto& [tensor, value] : tensors) {
        TensorView view = value.view(tensor);
        view.file = file;
        headers.tensors.push_back(std::move(view));
      }
    }
    if (made.weight_map) {
      std::set<std::string> listed;
      for (const auto& [tensor, file] : *made.weight_map) listed.insert(file);
      headers.indexed_files.emplace(listed.begin(), listed.end());
    }
    for (const auto& [key, value] : made.set_in_engine) {
      EXPECT_EQ(key, "num_nextn_predict_layers");
      config.num_nextn_predict_layers = value.get<std::size_t>();
    }
    plan = find_loader(loader)->plan({.config = config,
                                      .config_json = made.config,
                                      .headers = headers,
                                      .topology = {made.tp_size, made.tp_rank, made.expert_parallel, {}},
                                      .kv_cache_dtype = made.kv_cache_dtype,
                                      .config_unchecked = !made.set_in_engine.empty()});
  }

  static LoaderCase changed(LoaderCase made, const std::map<std::string, std::string>& changes) {
    for (const auto& [key, value] : changes) made.config[key] = nlohmann::json::parse(value);
    return made;
  }

  LoaderCase made;
  HeadConfig config;
  HeaderSet headers;
  LoadPlan plan;
};

/// Loads as a failing test shows them.
inline std::string in_words(const std::vector<RecordedLoad>& loads) {
  std::string words;
  for (const auto& load : loads) {
    words += load.parameter + " " + load.shard + " " + std::to_string(load.expert) + (load.written ? "; " : " no; ");
  }
  return words;
}

/// That a parameter is laid out and covered as recorded; its bytes are another question.
inline void expect_layout(const Parameter& parameter, const Coverage& coverage, const RecordedParameter& expected) {
  EXPECT_EQ(torch_name(parameter.dtype), expected.dtype) << parameter.name;
  EXPECT_EQ(parameter.shape, expected.shape) << parameter.name;
  EXPECT_EQ(coverage.elements - coverage.written, expected.unwritten) << parameter.name;
}

}  // namespace mtpcheck::golden
