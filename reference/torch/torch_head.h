#pragma once

#include <memory>

#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/head.h"
#include "reference/model/weights.h"
#include "reference/tensor/dtype.h"

namespace mtpcheck {

/// The head once more, from LibTorch operators on the CPU, the way an eager engine runs it: whole tensors, one operator
/// after the other, weights as they are stored and converted in each call, caches by concatenation. It is written from
/// the equations of docs and oracle, not from the reference, so that the two are independent.
///
/// dtype     f32, bf16, f16 or f64. Every module reads and writes this type; inside a module (norms, RoPE, softmax,
///           SwiGLU) arithmetic is float32, or float64 in f64. Indexer weights and scores, router logits, expert
///           weights and logits stay in that wider type and are recorded in it.
/// threads   of LibTorch's intra-operator pool, which is the process's own; 0 leaves it as it is
///
/// Throws Error{usage} for another dtype, Error{input} for weights that do not make a layer.
std::unique_ptr<Head> make_torch_head(HeadConfig config, HeadWeights weights, const Conventions& conventions,
                                      Dtype dtype, int threads = 0);

}  // namespace mtpcheck
