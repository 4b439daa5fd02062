#pragma once

#include <cstdint>
#include <span>

#include "harness/loading/carry_out/fill.h"
#include "harness/loading/plan/plan.h"
#include "reference/model/weights.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// The weights that a head runs on, as a load left them: every parameter of the plan carried out, and its numbers taken
/// as the engine's kernels take them (a quantised matrix with its scales, uint8 exponents as E8M0).
///
/// The heads that MTP layers leave unassigned are shared as the engine's proposer shares them: the embedding where
/// tie_word_embeddings is set, else the first layer's head.
///
/// tensors   the request's headers, with data
///
/// Throws Error{input} for another engine than vLLM, where the engine refuses to build the model, where its load ends
/// with an exception, for NVFP4, and for more than one rank: a head needs the whole of every matrix.
HeadWeights weights_as_loaded(const LoadPlan& plan, const LoadRequest& request, std::span<const TensorView> tensors,
                              Fill fill = Fill::initial, std::uint64_t seed = 0);

}  // namespace mtpcheck
