#pragma once

#include <filesystem>

#include "golden/cases/loader_case.h"
#include "golden/cases/loader_outcome.h"

namespace mtpcheck::golden {

/// For tests: the cases of golden/loader.
inline const LoaderCases& cases() {
  static const LoaderCases kCases(std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "loader");
  return kCases;
}

/// What vLLM made of them.
inline const LoaderOutcomes& vllm_outcomes() {
  static const LoaderOutcomes kOutcomes =
      LoaderOutcomes::of_vllm(std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "loader");
  return kOutcomes;
}

/// What SGLang made of them.
inline const LoaderOutcomes& sglang_outcomes() {
  static const LoaderOutcomes kOutcomes =
      LoaderOutcomes::of_sglang(std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "loader-sglang");
  return kOutcomes;
}

}  // namespace mtpcheck::golden
