#include "harness/loading/engines/engine_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "harness/loading/engines/output/table_text.h"

namespace mtpcheck {
namespace {

/// The wq_b and k_norm of the indexer of tiny-hy4: heads of 32 rows whose last 16 are rotated.
constexpr std::size_t kHead = 32;
constexpr std::size_t kRotated = 16;

Parameter& parameter_of(LoadPlan& plan, std::string_view end) {
  return *std::ranges::find_if(plan.parameters, [end](const Parameter& p) { return p.name.ends_with(end); });
}

std::uint32_t index_of(LoadPlan& plan, std::string_view end) {
  return static_cast<std::uint32_t>(&parameter_of(plan, end) - plan.parameters.data());
}

LoadPlan as_vllm(const LoadRequest& request) { return find_loader("vllm@0.33.0")->plan(request); }

/// An engine of other names, which keeps each head's rotated rows first.
LoadPlan rotated_first(const LoadRequest& request) {
  LoadPlan plan = as_vllm(request);
  plan.engine = "rotated";
  const std::uint32_t wq_b = index_of(plan, "indexer.wq_b.weight");
  std::vector<Write> writes;
  for (const Write& write : plan.writes) {
    if (write.parameter != wq_b) {
      writes.push_back(write);
      continue;
    }
    for (std::size_t row = 0; row < write.box.rows.size(); ++row) {
      Write one = write;
      const std::size_t head = row / kHead * kHead;
      const std::size_t place = head + (row - head + kRotated) % kHead;
      one.box.rows = {place, place + 1};
      one.axes[1].start += row;
      writes.push_back(one);
    }
  }
  plan.writes = std::move(writes);
  parameter_of(plan, "fused_qkv_a_proj.weight").name = "model.decoder.self_attn.fused_qkv_a_proj_with_mqa.weight";
  return plan;
}

RowTurn turn_of_rotated(std::string_view weight, const HeadConfig& /*config*/) {
  return weight == "self_attn.indexer.wq_b" ? RowTurn{kHead, kHead - kRotated} : RowTurn{};
}

/// Loses the up projection of expert 2 without a word.
LoadPlan forgetful(const LoadRequest& request) {
  LoadPlan plan = as_vllm(request);
  plan.engine = "forgetful";
  const std::uint32_t w13 = index_of(plan, "w13_weight");
  std::erase_if(plan.writes, [&](const Write& write) {
    return write.parameter == w13 && write.box.experts.begin == 2 && write.box.rows.begin > 0;
  });
  return plan;
}

/// Takes hnorm for enorm.
LoadPlan confused(const LoadRequest& request) {
  LoadPlan plan = as_vllm(request);
  plan.engine = "confused";
  const std::uint32_t enorm = index_of(plan, ".enorm.weight");
  const std::uint32_t hnorm = index_of(plan, ".hnorm.weight");
  const auto of_hnorm = std::ranges::find(plan.writes, hnorm, &Write::parameter)->tensor;
  std::ranges::find(plan.writes, enorm, &Write::parameter)->tensor = of_hnorm;
  return plan;
}

LoadPlan refusing(const LoadRequest& request) {
  LoadPlan plan = as_vllm(request);
  plan.engine = "refusing";
  plan.parameters.clear();
  plan.writes.clear();
  plan.refusal = Refusal{"layer_types", "ValueError", "layer_types are not known"};
  return plan;
}

/// Keeps an MXFP8 q_b_proj as the BF16 numbers that it stands for: exact, as each is E4M3 times a power of two.
LoadPlan dequantising(const LoadRequest& request) {
  LoadPlan plan = as_vllm(request);
  plan.engine = "dequantising";
  const std::uint32_t weight = index_of(plan, "q_b_proj.weight");
  const std::uint32_t scale = index_of(plan, "q_b_proj.weight_scale");
  plan.parameters[weight].dtype = Dtype::bf16;
  const std::uint32_t cells = std::ranges::find(plan.writes, scale, &Write::parameter)->tensor;
  for (Write& write : plan.writes) {
    if (write.parameter != weight) continue;
    write.conversion.kind = Conversion::Kind::dequantise;
    write.conversion.scale_tensor = cells;
    write.conversion.scale_read_as = Dtype::f8_e8m0;
    write.conversion.group_cols = 32;
    write.conversion.grid_cols = plan.parameters[weight].extents.cols / 32;
  }
  std::erase_if(plan.writes, [scale](const Write& write) { return write.parameter == scale; });
  plan.parameters.erase(plan.parameters.begin() + scale);
  for (Write& write : plan.writes) write.parameter -= write.parameter > scale ? 1 : 0;
  for (Load& load : plan.loads) load.parameter -= load.parameter > scale ? 1 : 0;
  return plan;
}

/// vLLM and an invented engine over a checkpoint of tiny-hy4.
struct TwoEngines {
  explicit TwoEngines(LoaderRules other_rules, const std::string& format = "split", bool headers_only = false)
      : other(other_rules),
        checkpoint(open_checkpoint(MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-" + format)),
        config(parse_head_config(checkpoint.config, "config.json")) {
    if (headers_only) {
      for (auto& tensor : checkpoint.headers.tensors) tensor.bytes = {};
    }
    first = audit(checkpoint, config, {.loader = find_loader("vllm@0.33.0")});
    second = audit(checkpoint, config, {.loader = &other});
    engines = {{find_loader("vllm@0.33.0"), &first}, {&other, &second}};
    table = engine_table(checkpoint, config, engines);
  }
  TwoEngines(const TwoEngines&) = delete;
  TwoEngines& operator=(const TwoEngines&) = delete;
  ~TwoEngines() = default;

  const EngineRow& row(const std::string& name) const {
    const auto found =
        std::ranges::find_if(table.rows, [&](const EngineRow& each) { return each.parameters.name == name; });
    if (found == table.rows.end()) throw std::out_of_range(name);
    return *found;
  }
  Relation relation(const std::string& name) const { return row(name).relations.front().relation; }
  std::size_t rows_that(Relation relation) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        table.rows, [relation](const EngineRow& each) { return each.relations.front().relation == relation; }));
  }
  HeadVerdict heads() const { return table.heads.front().verdict; }
  std::string text() const { return to_text(table, engines, checkpoint, false); }

  LoaderRules other;
  Checkpoint checkpoint;
  HeadConfig config;
  Audit first;
  Audit second;
  std::vector<EngineAudit> engines;
  EngineTable table;
};

TEST(EngineTable, AnEngineHoldsTheSameHeadAsItself) {
  for (const char* format : {"bf16", "split", "fp8-block", "mxfp8"}) {
    const TwoEngines both({"vllm", "0.33.0", as_vllm}, format);
    EXPECT_EQ(both.heads(), HeadVerdict::same) << format << both.text();
    EXPECT_TRUE(both.table.heads.front().why.empty());
    EXPECT_TRUE(both.table.defects.empty());
    EXPECT_GT(both.rows_that(Relation::equal), 20U);
    EXPECT_EQ(both.rows_that(Relation::equal) + both.rows_that(Relation::not_compared), both.table.rows.size());
    EXPECT_TRUE(passes(both.table, both.engines, Severity::warning));
  }
}

TEST(EngineTable, RowsInAnotherOrderAreTheSameWhereTheEngineExpectsThemSo) {
  const TwoEngines both({"rotated", "1", rotated_first, turn_of_rotated});
  EXPECT_EQ(both.relation("self_attn.indexer.wq_b"), Relation::permuted);
  EXPECT_EQ(both.rows_that(Relation::permuted), 1U);
  EXPECT_EQ(both.heads(), HeadVerdict::same) << both.text();
  const TwoEngines unexpected({"rotated", "1", rotated_first});
  EXPECT_EQ(unexpected.relation("self_attn.indexer.wq_b"), Relation::differs);
  EXPECT_EQ(unexpected.heads(), HeadVerdict::different);
  EXPECT_FALSE(passes(unexpected.table, unexpected.engines, Severity::error));
  const TwoEngines expected_in_vain({"vllm", "1", as_vllm, turn_of_rotated});
  EXPECT_EQ(expected_in_vain.heads(), HeadVerdict::different);
}

TEST(EngineTable, ParametersOfOtherNamesStandInOneRow) {
  const TwoEngines both({"rotated", "1", rotated_first, turn_of_rotated});
  const EngineRow& row = both.row("self_attn.{q_a_proj, kv_a_proj_with_mqa}");
  ASSERT_EQ(row.parameters.parameters[0].size(), 1U);
  ASSERT_EQ(row.parameters.parameters[1].size(), 1U);
  EXPECT_NE(both.first.plan->parameters[row.parameters.parameters[0][0]].name,
            both.second.plan->parameters[row.parameters.parameters[1][0]].name);
  EXPECT_EQ(row.relations.front().relation, Relation::equal);
}

TEST(EngineTable, WhatOneEngineLosesIsADifference) {
  const TwoEngines both({"forgetful", "1", forgetful});
  const EngineRow& row = both.row("mlp.experts.*.{gate_proj, up_proj}");
  EXPECT_EQ(row.cells[0].status, CellStatus::loaded);
  EXPECT_EQ(in_words(row.cells[1]), "partial, silent");
  EXPECT_EQ(row.relations.front().relation, Relation::differs);
  EXPECT_EQ(row.relations.front().agreement.only_first, 128U * 256U);
  EXPECT_EQ(row.relations.front().agreement.neither, 0U);
  EXPECT_EQ(both.heads(), HeadVerdict::different);
  ASSERT_EQ(both.table.defects.size(), 1U);
  const Defect& defect = both.table.defects.front();
  EXPECT_EQ(defect.subject, "mlp.experts.*.{gate_proj, up_proj}");
  EXPECT_EQ(in_words(defect, 0, both.first), "–");
  EXPECT_EQ(in_words(defect, 1, both.second), "silent");
  EXPECT_NE(both.text().find("vllm 0.33.0 and forgetful 0.33.0: different heads: mlp.experts"), std::string::npos)
      << both.text();
}

TEST(EngineTable, WhatBothLoseIsNoHeadToTrustAndNoDifferenceEither) {
  const LoaderRules rules{"forgetful", "1", forgetful};
  const TwoEngines both(rules);
  const std::vector<EngineAudit> twice{{&rules, &both.second}, {&rules, &both.second}};
  const EngineTable table = engine_table(both.checkpoint, both.config, twice);
  EXPECT_EQ(table.heads.front().verdict, HeadVerdict::incomplete);
  EXPECT_EQ(short_names(table), (std::vector<std::string>{"forgetful@0.33.0", "forgetful@0.33.0"}));
}

TEST(EngineTable, OtherBytesInOneParameterAreADifferenceWithAndWithoutData) {
  for (const bool headers_only : {false, true}) {
    const TwoEngines both({"confused", "1", confused}, "split", headers_only);
    EXPECT_EQ(both.relation("enorm"), Relation::differs);
    EXPECT_EQ(both.rows_that(Relation::differs), 1U);
  }
}

TEST(EngineTable, AnEngineThatRefusesHasNoHeadToCompare) {
  const TwoEngines both({"refusing", "2", refusing});
  EXPECT_EQ(both.heads(), HeadVerdict::no_head);
  EXPECT_EQ(both.table.heads.front().why, "refusing 0.33.0 refuses layer_types");
  EXPECT_EQ(both.rows_that(Relation::not_compared), both.table.rows.size());
  EXPECT_EQ(both.row("enorm").cells[1].status, CellStatus::refused);
  EXPECT_EQ(in_words(both.table.defects.front(), 1, both.second), "refuses");
  EXPECT_FALSE(passes(both.table, both.engines, Severity::error));
}

TEST(EngineTable, NumbersTimesScalesAreComparedWhereOnlyOneEngineKeepsScales) {
  const TwoEngines both({"dequantising", "1", dequantising}, "mxfp8");
  EXPECT_EQ(both.relation("self_attn.q_b_proj"), Relation::equal) << both.text();
  EXPECT_EQ(both.relation("self_attn.q_b_proj scale"), Relation::equal);
  EXPECT_EQ(both.heads(), HeadVerdict::same);
  const TwoEngines headers({"dequantising", "1", dequantising}, "mxfp8", true);
  EXPECT_EQ(headers.relation("self_attn.q_b_proj"), Relation::differs);  // cannot be told without data
}

TEST(EngineTable, EachTwoOfThreeEnginesAreCompared) {
  const LoaderRules rotated{"rotated", "1", rotated_first, turn_of_rotated};
  const TwoEngines both({"forgetful", "1", forgetful});
  const Audit third = audit(both.checkpoint, both.config, {.loader = &rotated});
  auto engines = both.engines;
  engines.push_back({&rotated, &third});
  const EngineTable table = engine_table(both.checkpoint, both.config, engines);
  ASSERT_EQ(table.heads.size(), 3U);
  EXPECT_EQ(table.heads[0].verdict, HeadVerdict::different);
  EXPECT_EQ(table.heads[1].verdict, HeadVerdict::same);
  EXPECT_EQ(table.heads[2].verdict, HeadVerdict::different);
  EXPECT_NE(to_text(table, engines, both.checkpoint, false).find("vllm / rotated"), std::string::npos);
}

TEST(CommonName, StarsExpertsAndBracesWhatDiffers) {
  EXPECT_EQ(common_name({"enorm"}), "enorm");
  EXPECT_EQ(common_name({"mlp.experts.0.down_proj", "mlp.experts.11.down_proj"}), "mlp.experts.*.down_proj");
  EXPECT_EQ(common_name({"mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.1.gate_proj"}),
            "mlp.experts.*.{gate_proj, up_proj}");
  EXPECT_EQ(common_name({"self_attn.indexer.wk", "self_attn.indexer.weights_proj"}),
            "self_attn.indexer.{wk, weights_proj}");
  EXPECT_EQ(common_name({"enorm", "self_attn.o_proj"}), "enorm, self_attn.o_proj");
}

}  // namespace
}  // namespace mtpcheck
