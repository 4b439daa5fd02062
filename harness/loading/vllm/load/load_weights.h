#pragma once

#include <cstdint>
#include <vector>

#include "harness/loading/plan/plan.h"
#include "harness/loading/plan/request.h"
#include "harness/loading/vllm/head/draft_head.h"
#include "harness/loading/vllm/quantisation/config.h"

namespace mtpcheck::vllm {

/// The order in which vLLM reads tensors: files in natural order of their names (numbers by value), in a file by name.
/// Tensors of files that the index does not name are left out.
std::vector<std::uint32_t> read_order(const HeaderSet& headers);

/// HYV4MTP.load_weights over all tensors: fills everything of the plan but the parameters.
void load_weights(const LoadRequest& request, const Quantisation& quantisation, const DraftHead& head, LoadPlan& plan);

}  // namespace mtpcheck::vllm
