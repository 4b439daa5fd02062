// An audit is silent on faultless checkpoints, and names whatever is taken away or left at a sentinel.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "harness/loading/audit/audit.h"
#include "properties/loading/world.h"

namespace mtpcheck::properties {
namespace {

LoadWorld drawn() {
  const LoadWorld world = any_load_world();
  RC_LOG() << rc::toString(world) << "\n";
  RC_CLASSIFY(world.storage != Storage::bf16, "quantised");
  return world;
}

Audit audit_of(const LoadWorld& world, const HeaderSet& headers, std::size_t rank, const char* loader = "vllm") {
  Checkpoint checkpoint;
  checkpoint.config = world.json();
  checkpoint.headers = headers;
  Audit audited = audit(checkpoint, world.config(),
                        {.loader = std::string(loader) == "none" ? nullptr : find_loader(loader),
                         .topology = {world.ranks, rank, world.expert_parallel, {}}});
  for (const Finding& finding : audited.findings) RC_LOG() << describe(finding) << "\n";
  return audited;
}

bool is_scale(const std::string& name) { return name.find("_scale") != std::string::npos; }

RC_GTEST_PROP(Audits, FaultlessCheckpointsGiveNoFinding, ()) {
  const LoadWorld world = drawn();
  const LoadFiles files = load_files(world);
  RC_ASSERT(audit_of(world, files.headers, any_rank(world)).findings.empty());
  RC_ASSERT(audit_of(world, files.headers, 0, "none").findings.empty());
}

RC_GTEST_PROP(Audits, WhateverIsTakenAwayIsNamed, ()) {
  const LoadWorld world = drawn();
  const std::size_t rank = any_rank(world);
  LoadFiles files = load_files(world);
  const LoadPlan whole = plan_of_rank(world, files.headers, rank);
  const auto victim = *rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(files.headers.tensors.size()));
  const std::string name = files.headers.tensors[victim].name;
  RC_LOG() << "without " << name << "\n";
  std::set<std::string> lost;
  for (const Write& write : whole.writes) {
    if (write.tensor == victim) lost.insert(whole.parameters[write.parameter].name);
  }
  files.headers.tensors.erase(files.headers.tensors.begin() + victim);
  const Audit audited = audit_of(world, files.headers, rank);
  RC_ASSERT(!audited.passes(Severity::error));
  for (const std::string& parameter : lost) {
    RC_ASSERT(std::ranges::any_of(audited.findings, [&](const Finding& finding) {
      return finding.subject == parameter && finding.severity == Severity::error &&
             finding.cause == Cause::checkpoint && (finding.id == "partial" || finding.id == "unassigned");
    }));
  }
  RC_ASSERT(!audit_of(world, files.headers, rank, "none").passes(Severity::error));
}

RC_GTEST_PROP(Audits, AnyOneCellLeftAtASentinelIsFound, ()) {
  LoadWorld world = drawn();
  if (world.storage == Storage::bf16) world.storage = Storage::fp8_block;
  LoadFiles files = load_files(world);
  std::vector<std::size_t> scales;
  for (std::size_t i = 0; i < files.headers.tensors.size(); ++i) {
    if (is_scale(files.headers.tensors[i].name)) scales.push_back(i);
  }
  RC_PRE(!scales.empty());
  const std::size_t victim = scales[*rc::gen::inRange<std::size_t>(0, scales.size())];
  const TensorView& scale = files.headers.tensors[victim];
  const auto cell = *rc::gen::inRange<std::size_t>(0, scale.elements());
  if (scale.dtype == Dtype::f32) {
    const float sentinel =
        *rc::gen::element(std::numeric_limits<float>::lowest(), -1.0F, 0.0F, std::numeric_limits<float>::quiet_NaN());
    std::memcpy(files.bytes[victim].data() + 4 * cell, &sentinel, sizeof(sentinel));
  } else {
    files.bytes[victim][cell] = std::byte{255};
  }
  RC_LOG() << "cell " << cell << " of " << scale.name << "\n";
  const Audit audited = audit_of(world, files.headers, any_rank(world));
  RC_ASSERT(std::ranges::any_of(audited.findings, [&](const Finding& finding) {
    return finding.subject == scale.name && finding.severity == Severity::error &&
           (finding.id == "sentinel" || finding.id == "non-finite") &&
           finding.found.find("1 times") != std::string::npos;
  }));
}

}  // namespace
}  // namespace mtpcheck::properties
