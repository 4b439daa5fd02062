#pragma once

#include "harness/loading/plan/plan.h"
#include "harness/loading/plan/request.h"
#include "harness/loading/vllm/head/draft_head.h"
#include "harness/loading/vllm/quantisation/config.h"

namespace mtpcheck::vllm {

/// HYV4MTP.load_weights over all tensors: fills everything of the plan but the parameters.
void load_weights(const LoadRequest& request, const Quantisation& quantisation, const DraftHead& head, LoadPlan& plan);

}  // namespace mtpcheck::vllm
