#pragma once

#include <span>
#include <string_view>

#include "harness/loading/engines/row_turn.h"
#include "harness/loading/plan/plan.h"

namespace mtpcheck {

/// The loader of one engine in one version: a pure function from a request to a plan. The rules of each engine lie in a
/// folder of their own (`vllm/`, …); adding an engine or a version is one entry in `loaders()`:
/// docs/adding-an-engine.md.
struct LoaderRules {
  std::string_view engine;   ///< "vllm"
  std::string_view version;  ///< "0.33.0"
  LoadPlan (*plan)(const LoadRequest& request);
  RowTurnOf row_turn = nullptr;  ///< in which order the engine keeps rows; nullptr: as in the files
};

/// Every loader that is known, engines in alphabetical order, newest version first.
std::span<const LoaderRules> loaders();

/// "vllm" (the newest version) or "vllm@0.33.0"; nullptr for a name that is not known.
const LoaderRules* find_loader(std::string_view name);
const LoaderRules* find_loader(std::span<const LoaderRules> among, std::string_view name);

/// The same; throws Error{usage} that lists the known ones for another name.
const LoaderRules& require_loader(std::string_view name);

/// vLLM 0.33.0, `HYV4MTP.load_weights`.
///
/// Throws Error{usage} for a topology that cannot be (rank not below size, an expert map of the wrong length).
LoadPlan plan_vllm_0_33_0(const LoadRequest& request);

/// SGLang 0.5.23, `HYV4ForCausalLMNextN.load_weights`.
///
/// Throws Error{usage} for a topology that cannot be, an expert map included.
LoadPlan plan_sglang_0_5_23(const LoadRequest& request);

/// Its indexer keeps the rotated entries of each head, the last in the files, first.
RowTurn row_turn_sglang(std::string_view weight, const HeadConfig& config);

}  // namespace mtpcheck
