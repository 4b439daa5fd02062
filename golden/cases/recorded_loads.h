#pragma once

#include <filesystem>

#include "golden/cases/loader_case.h"

namespace mtpcheck::golden {

/// For tests: the cases of golden/loader.
inline const LoaderCases& cases() {
  static const LoaderCases kCases(std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "loader");
  return kCases;
}

}  // namespace mtpcheck::golden
