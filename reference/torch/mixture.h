#pragma once

#include <ATen/core/Tensor.h>

#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/input.h"
#include "reference/model/weights.h"
#include "reference/torch/recorder.h"

namespace mtpcheck::torch_head {

/// The block's MLP, dense or a mixture of experts: mlp_out [T, H] for x [T, H].
at::Tensor feed_forward(const HeadConfig& config, const Conventions& conventions, const LayerWeights& weights,
                        const Selections* forced, const at::Tensor& x, const Recorder& record);

}  // namespace mtpcheck::torch_head
