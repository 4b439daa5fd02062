#pragma once

#include <filesystem>

namespace mtpcheck::golden {

/// For tests: tiny-hy4, with its checkpoints, traces and faults.
inline const std::filesystem::path kTinyHy4 = MTPCHECK_GOLDEN_DIR "/tiny-hy4";

}  // namespace mtpcheck::golden
