// vLLM and SGLang side by side over every recorded case: the table against what the archive found when it compared the
// two engines' parameters, byte by byte.
#include "harness/loading/engines/engine_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "golden/cases/audited_case.h"
#include "golden/cases/loader_outcome.h"
#include "golden/cases/planned_case.h"
#include "golden/cases/recorded_loads.h"
#include "harness/loading/engines/output/table_text.h"

namespace mtpcheck::golden {
namespace {

/// vLLM first, SGLang second, on the files and the config that SGLang was given.
struct SideBySide {
  explicit SideBySide(const std::string& name, const LoaderOutcome& recorded) {
    const LoaderCase made = PlannedCase::changed(cases().read(name), recorded.config_changes);
    const ScratchDirectory scratch;
    write_checkpoint(made, scratch.path());
    const Checkpoint checkpoint = open_checkpoint(scratch.path());
    HeadConfig config = parse_head_config(checkpoint.config, name);
    for (const auto& [key, value] : made.set_in_engine) config.num_nextn_predict_layers = value.get<std::size_t>();
    for (const char* loader : {"vllm@0.33.0", "sglang@0.5.23"}) {
      audits.push_back(audit(checkpoint, config,
                             {.loader = find_loader(loader),
                              .topology = {made.tp_size, made.tp_rank, made.expert_parallel, {}},
                              .kv_cache_dtype = made.kv_cache_dtype,
                              .config_unchecked = !made.set_in_engine.empty()}));
    }
    const std::vector<EngineAudit> engines{{find_loader("vllm"), audits.data()}, {find_loader("sglang"), &audits[1]}};
    table = engine_table(checkpoint, config, engines);
    text = to_text(table, engines, checkpoint, false);
    swapped = engine_table(checkpoint, config, std::vector<EngineAudit>{engines[1], engines[0]});
  }

  std::string parameter_of(const EngineRow& row) const {
    const auto& of_sglang = row.parameters.parameters[1];
    return of_sglang.empty() ? std::string{} : audits[1].plan->parameters[of_sglang.front()].name;
  }
  std::set<std::string> parameters_that(Relation relation) const {
    std::set<std::string> names;
    for (const EngineRow& row : table.rows) {
      if (row.relations.front().relation == relation) names.insert(parameter_of(row));
    }
    return names;
  }

  std::vector<Audit> audits;
  EngineTable table;
  EngineTable swapped;  ///< SGLang first
  std::string text;
};

/// Names alone: the archive says behind them how far the numbers are apart.
std::set<std::string> names_of(const std::vector<std::string>& told) {
  std::set<std::string> names;
  for (const auto& line : told) names.insert(line.substr(0, line.find(':')));
  return names;
}

/// What the archive could not compare: nothing was written there in one of the engines. Embedding and head are the
/// target model's in SGLang, and KV-cache scales are no weights.
std::size_t left_unwritten(const LoaderOutcome& recorded) {
  const auto no_weight = [](const std::string& name) {
    return name == "model.embed_tokens.weight" || name == "lm_head.weight" || name.ends_with(".k_scale") ||
           name.ends_with(".v_scale");
  };
  return recorded.skipped_with_vllm -
         static_cast<std::size_t>(std::ranges::count_if(recorded.parameters, [&](const auto& entry) {
           return no_weight(entry.first) && entry.second.unwritten > 0;
         }));
}

class TwoEngines : public testing::TestWithParam<std::string> {};

TEST_P(TwoEngines, AreToldApartAsTheirParametersWere) {
  const LoaderOutcome recorded = sglang_outcomes().read(GetParam());
  const SideBySide both(GetParam(), recorded);
  SCOPED_TRACE(both.text);
  const HeadVerdict verdict = both.table.heads.front().verdict;
  if (!recorded.compared_with_vllm) {
    EXPECT_EQ(verdict, HeadVerdict::no_head);
    return;
  }
  const auto equal = both.parameters_that(Relation::equal);
  const auto permuted = both.parameters_that(Relation::permuted);
  EXPECT_EQ(equal.size(), recorded.equal_to_vllm);
  EXPECT_EQ(permuted.size(), recorded.permuted_from_vllm);
  for (const auto& name : names_of(recorded.differs_from_vllm)) {
    EXPECT_TRUE(both.parameters_that(Relation::differs).contains(name)) << name;
  }
  auto only_in_sglang = both.parameters_that(Relation::only_second);
  std::erase_if(only_in_sglang, [&](const auto& name) { return recorded.parameters.at(name).unwritten > 0; });
  EXPECT_EQ(only_in_sglang, names_of(recorded.missing_in_vllm));

  const bool same = recorded.differs_from_vllm.empty() && recorded.missing_in_vllm.empty() &&
                    left_unwritten(recorded) == 0 && recorded.equal_to_vllm > 0;
  EXPECT_EQ(verdict == HeadVerdict::same, same);
}

TEST_P(TwoEngines, NeverHoldDifferentHeadsWithoutAFinding) {
  const SideBySide both(GetParam(), sglang_outcomes().read(GetParam()));
  if (both.table.heads.front().verdict != HeadVerdict::different) return;
  EXPECT_FALSE(both.audits[0].passes(Severity::error) && both.audits[1].passes(Severity::error)) << both.text;
}

std::map<Relation, std::size_t> relations_of(const EngineTable& table) {
  std::map<Relation, std::size_t> counts;
  for (const EngineRow& row : table.rows) ++counts[row.relations.front().relation];
  return counts;
}

TEST_P(TwoEngines, AreComparedAlikeInEitherOrder) {
  const SideBySide both(GetParam(), sglang_outcomes().read(GetParam()));
  EXPECT_EQ(both.swapped.heads.front().verdict, both.table.heads.front().verdict);
  auto relations = relations_of(both.table);
  std::swap(relations[Relation::only_first], relations[Relation::only_second]);
  auto mirrored = relations_of(both.swapped);
  mirrored[Relation::only_first];  // an empty count is a count
  mirrored[Relation::only_second];
  EXPECT_EQ(mirrored, relations) << both.text;
  EXPECT_EQ(both.swapped.defects.size(), both.table.defects.size());
}

INSTANTIATE_TEST_SUITE_P(Cases, TwoEngines, testing::ValuesIn(sglang_outcomes().names()),
                         [](const auto& param_info) { return param_info.param; });

TEST(TwoEngines, HoldTheSameHeadInFiftyThreeOfTheShownCases) {
  std::map<HeadVerdict, std::size_t> verdicts;
  for (const auto& name : sglang_outcomes().names()) {
    ++verdicts[SideBySide(name, sglang_outcomes().read(name)).table.heads.front().verdict];
  }
  EXPECT_EQ(verdicts[HeadVerdict::same], 53U);
  EXPECT_EQ(verdicts[HeadVerdict::different], 28U);
  EXPECT_EQ(verdicts[HeadVerdict::incomplete], 11U);
  EXPECT_EQ(verdicts[HeadVerdict::no_head], 126U);
}

}  // namespace
}  // namespace mtpcheck::golden
