// Public faults of quantisation, scales and experts (Q01–Q14, E03, E04), each as a small checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <set>

#include "golden/cases/audited_case.h"
#include "golden/cases/recorded_loads.h"
#include "harness/loading/carry_out/carry_out.h"

namespace mtpcheck::golden {
namespace {

using ::testing::HasSubstr;

LoaderCase blocks() { return cases().read("d_fp8_split"); }
LoaderCase mx() { return cases().read("q_mxfp8_split"); }

const std::string kScale = "~self_attn.o_proj.weight_scale_inv";

void set_cell(Tensor& scale, std::size_t cell, float value) {
  std::memcpy(scale.bytes.data() + 4 * cell, &value, sizeof(value));
}

TEST(FaultScales, Q01FourNamesOfOneThingAndTwoThatDiffer) {
  for (const char* name : {"scale", "scale_inv", "weight_scale", "weight_scale_inv"}) {
    LoaderCase made = blocks();
    rename(made, kScale, std::string("~self_attn.o_proj.") + name);
    EXPECT_TRUE(audit_case(made, "none").passes(Severity::warning)) << name << text_of(audit_case(made, "none"));
  }
  LoaderCase made = blocks();
  Tensor other = tensor_of(made, kScale);
  set_cell(other, 0, 3.0F);
  tensors_of(made).emplace(long_name("~self_attn.o_proj.weight_scale"), other);
  const Audit audited = audit_case(made);
  EXPECT_NE(find(audited, "scale-conflict"), nullptr) << text_of(audited);
}

TEST(FaultScales, Q02WkWithoutItsScaleWaitsForEver) {
  const Audit audited = audit_case(cases().read("j_missing_wk_scale"));
  EXPECT_NE(find(audited, "pending-pair", "~self_attn.indexer.wk.weight"), nullptr) << text_of(audited);
}

TEST(FaultScales, Q03ExponentsTakenAsNumbers) {
  for (const char* name : {"x_uint8_linear_scale", "x_uint8_weight_scale_inv", "q_mxfp8_e8m0_scales"}) {
    EXPECT_NE(find(audit_case(cases().read(name)), "scale-format"), nullptr) << name;
  }
}

TEST(FaultScales, Q04ExponentsPackedFourToAnInteger) {
  LoaderCase made = mx();
  Tensor& scale = tensor_of(made, "~self_attn.o_proj.weight_scale");
  scale.dtype = Dtype::i32;
  scale.shape = {scale.bytes.size() / 4};
  const Audit audited = audit_case(made, "none");
  EXPECT_NE(find(audited, "scale-format", "~self_attn.o_proj.weight_scale"), nullptr) << text_of(audited);
}

TEST(FaultScales, Q05LayoutsConfused) {
  LoaderCase made = cases().read("q_ct_channel_split");
  Tensor& scale = tensor_of(made, "~self_attn.o_proj.weight_scale");
  scale.shape = {scale.shape[0] / 2, 2};
  const Audit audited = audit_case(made);
  EXPECT_NE(find(audited, "scale-format", "~self_attn.o_proj.weight_scale"), nullptr) << text_of(audited);
  EXPECT_NE(find(audit_case(cases().read("q_ct_channel_one_expert_scale")), "scale-format"), nullptr);
}

TEST(FaultScales, Q06RaggedBlocksGetAnotherGrid) {
  const Audit audited = audit_case(cases().read("x_wk_ragged_blocks"));
  const Finding* const other = find(audited, "scale-format", "~self_attn.indexer.wk.weight");
  ASSERT_NE(other, nullptr) << text_of(audited);
  EXPECT_EQ(other->cause, Cause::loader);
  EXPECT_THAT(other->found, HasSubstr("96×128"));
}

TEST(FaultScales, Q07RefinedGridsUnderTensorParallelAreRight) {
  for (const char* name :
       {"l_tp2_fp8_refined_rank0", "l_tp2_fp8_refined_rank1", "l_tp2_fp8_rank0", "l_tp2_fp8_rank1"}) {
    EXPECT_TRUE(audit_case(cases().read(name)).passes(Severity::warning)) << name;
  }
}

TEST(FaultScales, Q08DtypesOfTensorAndParameterContradict) {
  EXPECT_NE(find(audit_case(cases().read("q_mxfp8_excluded_not_named")), "dtype-contradiction"), nullptr);
  EXPECT_NE(find(audit_case(cases().read("q_mxfp8_excluded_but_fp8")), "quant-contradiction"), nullptr);
}

TEST(FaultScales, Q09ScaleMissingAndOrphan) {
  LoaderCase made = blocks();
  drop(made, kScale);
  EXPECT_NE(find(audit_case(made), "scale-missing", "~self_attn.o_proj.weight"), nullptr);
  made = blocks();
  drop(made, "~self_attn.o_proj.weight");
  const Audit audited = audit_case(made);
  EXPECT_NE(find(audited, "orphan-scale", kScale), nullptr) << text_of(audited);
}

TEST(FaultScales, Q11AnyCellLeftAtASentinelIsFound) {
  for (const float sentinel : {std::numeric_limits<float>::lowest(), -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    LoaderCase made = blocks();
    set_cell(tensor_of(made, kScale), 1, sentinel);
    const Audit audited = audit_case(made);
    const Finding* found = find(audited, "sentinel", kScale);
    if (found == nullptr) found = find(audited, "non-finite", kScale);
    ASSERT_NE(found, nullptr) << sentinel << text_of(audited);
    EXPECT_THAT(found->found, HasSubstr("1 times, first at [1, 0]"));
  }
  LoaderCase made = mx();
  tensor_of(made, "~self_attn.o_proj.weight_scale").bytes[5] = std::byte{255};
  EXPECT_NE(find(audit_case(made), "sentinel", "~self_attn.o_proj.weight_scale"), nullptr);
}

TEST(FaultScales, Q11ARowOfZerosIsFoundAndKvPlaceholdersAreAllowed) {
  LoaderCase made = cases().read("a_bf16_split");
  Tensor& weight = tensor_of(made, "~mlp.experts.1.down_proj.weight");
  std::fill_n(weight.bytes.begin(), weight.shape[1] * 2, std::byte{0});
  const Finding* const row = find(audit_case(made), "sentinel", "~mlp.experts.1.down_proj.weight");
  EXPECT_NE(row, nullptr);
  EXPECT_TRUE(audit_case(cases().read("q_mxfp8_kv_absent")).passes(Severity::warning));
}

TEST(FaultScales, Q12ATransposedScaleIsRefusedByItsShape) {
  LoaderCase made = mx();
  Tensor& scale = tensor_of(made, "~self_attn.o_proj.weight_scale");
  std::swap(scale.shape[0], scale.shape[1]);
  const Audit audited = audit_case(made);
  EXPECT_NE(find(audited, "scale-format", "~self_attn.o_proj.weight_scale"), nullptr) << text_of(audited);
}

TEST(FaultScales, Q13ExclusionsAreDecidedByTheTensors) {
  const Audit audited = audit_case(cases().read("i_excluded_gate_wildcard"));
  EXPECT_NE(find(audited, "dtype-contradiction", "~self_attn.linear_gate.weight"), nullptr) << text_of(audited);
  EXPECT_NE(find(audited, "exclusion-without-effect"), nullptr) << text_of(audited);
  EXPECT_TRUE(audit_case(cases().read("q_mxfp8_excluded_gate_star")).passes(Severity::warning));
}

TEST(FaultScales, Q14TheAlgorithmSaysBf16AndTheTensorsAreFp8) {
  LoaderCase made = blocks();
  made.config["mtp_quant_algo"] = "BF16";
  for (const char* loader : {"vllm", "none"}) {
    const Audit audited = audit_case(made, loader);
    EXPECT_NE(find(audited, "quant-contradiction", "mtp_quant_algo"), nullptr) << text_of(audited);
  }
}

/// Experts that a rank holds, and the bytes of its w2.
struct RankExperts {
  std::vector<std::uint32_t> experts;
  std::vector<std::byte> bytes;
};

RankExperts experts_of(const LoaderCase& made, const Topology& topology) {
  const HeadConfig config = parse_head_config(made.config, made.name);
  HeaderSet headers;
  for (const auto& [name, tensor] : made.files.at("model.safetensors")) headers.tensors.push_back(tensor.view(name));
  for (auto& tensor : headers.tensors) tensor.file = "model.safetensors";
  const LoadPlan plan = find_loader("vllm")->plan(
      {.config = config, .config_json = made.config, .headers = headers, .topology = topology});
  const auto index = plan.find_parameter("model.layers.3.mtp_block.mlp.experts.routed_experts.w2_weight");
  return {plan.parameters[*index].experts, carry_out(plan, *index, headers.tensors).tensor.bytes};
}

TEST(FaultExperts, E03RangesOfTheRanksPartitionTheExperts) {
  const LoaderCase made = cases().read("a_bf16_twelve_experts");
  for (const std::size_t ranks : {1, 2, 4}) {
    std::multiset<std::uint32_t> all;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto held = experts_of(made, {ranks, rank, true, {}}).experts;
      EXPECT_FALSE(held.empty()) << rank << " of " << ranks;
      all.insert(held.begin(), held.end());
    }
    ASSERT_EQ(all.size(), 12U) << ranks;
    EXPECT_EQ(std::set<std::uint32_t>(all.begin(), all.end()).size(), 12U) << ranks;
  }
}

TEST(FaultExperts, E03SizesThatRanksDoNotDivideAreRefusedByName) {
  LoaderCase made = cases().read("a_bf16_split");
  made.tp_size = 3;
  const Audit audited = audit_case(made);
  EXPECT_NE(find(audited, "indivisible", "num_attention_heads"), nullptr) << text_of(audited);
}

TEST(FaultExperts, E03AnExpertOfAnotherRankThatIsMissingIsTold) {
  LoaderCase made = cases().read("l_ep2_rank0");
  drop(made, "~mlp.experts.3.up_proj.weight");
  const Audit audited = audit_case(made);
  EXPECT_NE(find(audited, "unassigned", "MTP layer 0 mlp.experts.3.up_proj"), nullptr) << text_of(audited);
}

TEST(FaultExperts, E04AnExpertMapPutsEveryExpertIntoItsOwnSlot) {
  const LoaderCase made = cases().read("a_bf16_split");
  const auto whole = experts_of(made, {}).bytes;
  const std::size_t expert_bytes = whole.size() / 4;
  std::vector<std::byte> put_together(whole.size());
  const std::vector<std::vector<std::int64_t>> maps = {{1, -1, -1, 0}, {-1, 0, 1, -1}};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto held = experts_of(made, {2, rank, true, maps[rank]});
    for (std::size_t slot = 0; slot < held.experts.size(); ++slot) {
      EXPECT_EQ(maps[rank][held.experts[slot]], static_cast<std::int64_t>(slot));
      std::memcpy(put_together.data() + held.experts[slot] * expert_bytes, held.bytes.data() + slot * expert_bytes,
                  expert_bytes);
    }
  }
  EXPECT_EQ(put_together, whole);
}

}  // namespace
}  // namespace mtpcheck::golden
