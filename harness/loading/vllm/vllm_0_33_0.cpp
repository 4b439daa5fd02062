// vLLM 0.33.0: how its HYV4MTP draft model is built and loaded.
//
//   quantisation/  config.json's quantization_config, mtp_quant_algo and exclusions → the scheme of each module
//   head/          the draft model's parameters on one rank: names, shapes, dtypes, initial values, loaders
//   names          which tensors are the head's, and what they are called in it
//   load/          load_weights: stacks, experts, the indexer's FP8 wk, KV-cache scales, and the weight loaders
//
// Source: vllm/models/hy_v4/nvidia/{mtp,attention,moe,model}.py, vllm/model_executor/{parameter.py,layers,model_loader}
// of the wheel vllm 0.33.0, checked against recorded runs of it (golden/loader).
#include <algorithm>

#include "harness/checkpoint/natural_order.h"
#include "harness/loading/plan/read_order.h"
#include "harness/loading/rules.h"
#include "harness/loading/symbolic/refused.h"
#include "harness/loading/vllm/head/draft_head.h"
#include "harness/loading/vllm/load/load_weights.h"
#include "harness/loading/vllm/quantisation/config.h"

namespace mtpcheck {
LoadPlan plan_vllm_0_33_0(const LoadRequest& request) {
  check_topology(request.topology);
  LoadPlan plan = start_plan("vllm", "0.33.0", request, read_order(request.headers, natural_less));
  try {
    const std::size_t layers = std::max<std::size_t>(request.config.num_nextn_predict_layers, 1);
    const vllm::Quantisation quantisation =
        vllm::read_quantisation(request.config_json, request.config.num_hidden_layers, layers);
    const vllm::DraftHead head = vllm::build_draft_head(request, quantisation);
    for (const vllm::ConfigWarning& warning : quantisation.warnings) {
      plan.warnings.push_back({EngineWarning::Kind::unknown_algorithm, kNone, warning.text});
    }
    plan.parameters.reserve(head.parameters.size());
    for (const vllm::EngineParameter& entry : head.parameters) plan.parameters.push_back(entry.parameter);
    vllm::load_weights(request, quantisation, head, plan);
  } catch (const Refused& refused) {
    plan.parameters.clear();
    plan.refusal = {refused.config_key, refused.type, refused.message};
  }
  return plan;
}

}  // namespace mtpcheck
