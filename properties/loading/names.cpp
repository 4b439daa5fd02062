// The mapping of names: defined for every text, exact on numbers, and different for different tensors.
#include "harness/loading/vllm/names.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "harness/loading/plan/expert_projections.h"
#include "harness/loading/symbolic/python_text.h"
#include "properties/loading/world.h"

namespace mtpcheck::properties {
namespace {

RC_GTEST_PROP(Names, ALayerIsTheHeadsExactlyWhenItsNumberIs, (const std::string& rest)) {
  const auto layers = *rc::gen::inRange<std::size_t>(1, 120);
  const auto declared = *rc::gen::inRange<std::size_t>(0, 5);
  const auto number = *rc::gen::inRange<std::size_t>(0, 1300);
  const std::string name = "model.layers." + std::to_string(number) + "." + rest;
  const std::size_t accepted = declared == 0 ? 0 : std::max<std::size_t>(declared - 1, 1);
  const auto found = vllm::mtp_layer_name(name, layers, declared);
  RC_ASSERT(found.has_value() == (number >= layers && number < layers + accepted));
  if (found) RC_ASSERT(found->layer == number);
}

RC_GTEST_PROP(Names, AnyTextHasAnAnswer, (const std::string& text)) {
  for (const std::string& name : {text, "model.mtp_layers." + text, "model.mtp_layers.0." + text}) {
    if (const auto layer = vllm::mtp_layer_name(name, 3, 1)) {
      if (const auto draft = vllm::draft_name(*layer)) {
        vllm::kv_scale_target(*draft, true);
        split_expert_projections(*draft, 4, "experts.routed_experts.");
      }
    }
  }
  RC_SUCCEED("no exception");
}

RC_GTEST_PROP(Names, ExpertsAreToldApartByTheWholeNumber, ()) {
  const auto experts = *rc::gen::inRange<std::size_t>(1, 300);
  const auto expert = *rc::gen::inRange<std::size_t>(0, 300);
  const auto found =
      split_expert_projections("model.layers.3.mtp_block.mlp.experts." + std::to_string(expert) + ".up_proj.weight",
                               experts, "experts.routed_experts.");
  RC_ASSERT(found.size() == (expert < experts ? 1U : 0U));
  if (!found.empty()) {
    RC_ASSERT(found[0].expert == expert);
    RC_ASSERT(found[0].shard == Shard::w3);
    RC_ASSERT(found[0].parameter == "model.layers.3.mtp_block.mlp.experts.routed_experts.w13_weight");
  }
}

RC_GTEST_PROP(Names, BothFormsOfALayersNameMeetAndNoOthersDo, ()) {
  LoadWorld world = any_load_world();
  const LoadFiles files = load_files(world);
  std::map<std::string, std::string> origin;
  for (const TensorView& tensor : files.headers.tensors) {
    const auto layer = vllm::mtp_layer_name(tensor.name, 2, 1);
    if (!layer) continue;
    const auto draft = vllm::draft_name(*layer);
    RC_ASSERT(draft.has_value());
    RC_ASSERT(origin.emplace(*draft, tensor.name).second);
    const std::string other = replace_all(tensor.name, "model.mtp_layers.0.", "model.layers.2.");
    RC_ASSERT(vllm::draft_name(*vllm::mtp_layer_name(other, 2, 1)) == draft);
  }
}

}  // namespace
}  // namespace mtpcheck::properties
