#include "harness/faults/catalogue/fault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/checkpoint/scratch_directory.h"

namespace mtpcheck {
namespace {

TEST(FaultCatalogue, HoldsAtLeastEightyDistinctFaults) {
  std::set<std::string_view> ids;
  for (const auto& fault : fault_catalogue()) {
    EXPECT_TRUE(ids.insert(fault.id).second) << fault.id;
    EXPECT_FALSE(fault.what.empty() || fault.source.empty() || fault.where.empty()) << fault.id;
  }
  EXPECT_GE(ids.size(), 80U);
}

TEST(FaultCatalogue, EachFaultHasTheOneFunctionOfItsKind) {
  for (const auto& fault : fault_catalogue()) {
    const bool edits = fault.kind == FaultKind::checkpoint || fault.kind == FaultKind::loader;
    EXPECT_EQ(fault.edit != nullptr, edits) << fault.id;
    EXPECT_EQ(fault.head != nullptr, fault.kind == FaultKind::head) << fault.id;
    EXPECT_EQ(fault.protocol != nullptr, fault.kind == FaultKind::protocol) << fault.id;
    EXPECT_EQ(fault.metric != nullptr, fault.kind == FaultKind::metric) << fault.id;
  }
}

// Every edit fits the checkpoint it is written for, and changes it.
TEST(FaultCatalogue, EveryEditChangesItsCheckpoint) {
  const std::filesystem::path tiny = MTPCHECK_GOLDEN_DIR "/tiny-hy4";
  for (const auto& fault : fault_catalogue()) {
    if (fault.edit == nullptr) continue;
    const auto clean = read_editable(tiny / ("checkpoint-" + std::string(fault.base)));
    auto broken = clean;
    ASSERT_NO_THROW(fault.edit(broken)) << fault.id;
    bool changed = broken.config != clean.config || !broken.spoil.empty() ||
                   broken.tensors.size() != clean.tensors.size() || (broken.index && !broken.index->empty());
    for (std::size_t i = 0; !changed && i < clean.tensors.size(); ++i) {
      const auto& a = clean.tensors[i];
      const auto& b = broken.tensors[i];
      changed = a.name != b.name || a.tensor.dtype != b.tensor.dtype || a.tensor.shape != b.tensor.shape ||
                a.tensor.bytes != b.tensor.bytes;
    }
    EXPECT_TRUE(changed) << fault.id;
  }
}

TEST(FaultCatalogue, EveryMetricMistakeIsSeen) {
  for (const auto& fault : metric_faults()) EXPECT_TRUE(fault.metric()) << fault.id;
}

TEST(FaultCatalogue, LikelyCausesAreListedForTheHeadsFaults) {
  const auto faults = fault_catalogue();
  std::size_t listed = 0;
  for (const auto& fault : faults) listed += likely_cause(fault.id).empty() ? 0 : 1;
  EXPECT_GE(listed, 39U);
  EXPECT_EQ(likely_cause("rope-interleaved"), "interleaved RoPE");
  EXPECT_EQ(likely_cause("no-such-fault"), "");
}

}  // namespace
}  // namespace mtpcheck
