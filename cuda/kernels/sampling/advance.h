#pragma once

#include <cstdint>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// From one draft step to the next, on the device: each sequence's chosen token becomes its next input, one position
/// on.
struct AdvanceDraft {
  int sequences = 0;
  int step = 0;                        ///< of `steps`
  int steps = 0;                       ///< K
  unsigned long long* keys = nullptr;  ///< [B] of argmax; set to 0 for the next step
  std::int32_t* drafts = nullptr;      ///< [B, K]
  std::int32_t* ids = nullptr;         ///< [B]
  std::int32_t* positions = nullptr;   ///< [B] one more
  std::int32_t* cache_rows = nullptr;  ///< [B] of the layer that ran: one more
  std::int32_t* key_counts = nullptr;  ///< [B] likewise
};

void advance_draft(Stream stream, const AdvanceDraft& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
