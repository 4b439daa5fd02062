#include "harness/loading/audit/finding.h"

#include <fmt/format.h>

#include <array>

namespace mtpcheck {

std::string_view to_string(Severity severity) {
  constexpr std::array<std::string_view, 3> kWords{"info", "warning", "error"};
  return kWords[static_cast<std::size_t>(severity)];
}

std::string_view to_string(Cause cause) { return cause == Cause::checkpoint ? "checkpoint" : "loader"; }

std::string describe(const Finding& finding) {
  return fmt::format("{} {}: {}: {}; expected: {}; engine: {}", to_string(finding.severity), finding.id,
                     finding.subject, finding.found, finding.expected,
                     finding.engine_says.empty() ? "nothing" : finding.engine_says);
}

std::span<const FindingId> finding_ids() {
  static constexpr FindingId kIds[] = {
      {"no-mtp-weights", "the checkpoint holds no tensor of any MTP layer"},
      {"nothing-matched", "no tensor matched the loader's names, though some resemble them"},
      {"unassigned", "a parameter of the head received nothing"},
      {"partial", "some elements of a parameter were never written"},
      {"duplicate-write", "a slice of a parameter was written by two tensors; the last one wins"},
      {"pending-pair", "half of a pair waits for a partner that never comes"},
      {"unknown-tensor", "a tensor of the MTP layer that the loader does not take"},
      {"extra-layer", "more MTP layers in the files than the config declares"},
      {"layer-not-filled", "a declared MTP layer received nothing"},
      {"layer-kind", "the config makes the MTP layer dense where the files hold an indexer or experts"},
      {"shape-mismatch", "a tensor's shape is not the weight's: it is cut, padded or refused"},
      {"dtype-contradiction", "a tensor's dtype is not what its parameter holds; numbers are converted"},
      {"quant-contradiction",
       "the tensors are quantised and the engine reads them as if they were not, or the reverse"},
      {"scale-missing", "a quantised tensor without its scale"},
      {"orphan-scale", "a scale without a quantised tensor"},
      {"scale-format", "a scale whose dtype, shape or blocks are read otherwise than they were written"},
      {"scale-conflict", "one tensor has two scales that differ"},
      {"sentinel", "cells or rows still hold what memory was filled with before the load"},
      {"non-finite", "NaN or infinite numbers in a tensor"},
      {"ignored-differs", "a copy of embedding or head that the loader skips differs from the shared one"},
      {"tied-head-differs", "the config ties the head to the embedding, and a different head lies in the files"},
      {"expert-count", "the number of experts is not the config's"},
      {"indivisible", "a size that the ranks do not divide"},
      {"config-refused", "the engine refuses to build the model from this config"},
      {"load-stops", "the engine raises an exception while it loads"},
      {"unknown-algorithm", "mtp_quant_algo holds a word that the engine does not know"},
      {"exclusion-without-effect", "the config excludes a module that the engine quantises all the same"},
      {"index-mismatch", "a tensor lies elsewhere than the index says, or nowhere"},
      {"shard-missing", "a file that the index names is absent"},
      {"truncated", "a file ends before its last tensor does"},
      {"corrupt-header", "a safetensors header that cannot be trusted"},
      {"corrupt-index", "an index that cannot be read"},
      {"corrupt-config", "a config that cannot be read"},
      {"duplicate-tensor", "one name in two shards"},
      {"digest-differs", "a running engine holds other bytes than predicted"},
      {"digest-shape", "a running engine's parameter has another dtype or shape than predicted"},
      {"digest-missing", "a parameter that only the prediction or only the running engine has"},
  };
  return kIds;
}

}  // namespace mtpcheck
