#include "harness/loading/sglang/head/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "harness/loading/symbolic/refused.h"

namespace mtpcheck::sglang {
namespace {

using Json = nlohmann::json;

const Json* given(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found == config.end() || found->is_null() ? nullptr : &*found;
}

// A list with one entry for each backbone layer, all of them among `known`; it may be absent.
void check_list(const LoadRequest& request, const char* key, std::initializer_list<std::string_view> known,
                const char* complaint) {
  const Json* const list = given(request.config_json, key);
  if (list == nullptr) return;
  const std::size_t layers = request.config.num_hidden_layers;
  if (!list->is_array() || list->size() != layers) {
    throw Refused{key, "ValueError", fmt::format("{} must contain {} entries, got {}", key, layers, list->size())};
  }
  for (const Json& entry : *list) {
    if (std::ranges::none_of(known, [&](std::string_view word) { return entry == word; })) {
      throw Refused{key, "ValueError", complaint};
    }
  }
}

void require(bool holds, const char* key, const char* complaint) {
  if (!holds) throw Refused{key, "ValueError", complaint};
}

bool flag(const Json& config, const char* key) {
  const Json* const value = given(config, key);
  return value == nullptr || !value->is_boolean() || value->get<bool>();
}

std::size_t size_of(const Json& config, const char* key, std::size_t absent) {
  const Json* const value = given(config, key);
  return value != nullptr && value->is_number_unsigned() ? value->get<std::size_t>() : absent;
}

void check(const LoadRequest& request, const HeadConfig& head) {
  const Json& config = request.config_json;
  check_list(request, "mlp_layer_types", {"dense", "sparse"}, "mlp_layer_types only supports dense and sparse");
  check_list(request, "layer_types", {"deepseek_sparse_attention", "indexed_attention"},
             "HYV4 only supports deepseek_sparse_attention (indexed_attention)");
  check_list(request, "indexer_types", {"full", "shared"}, "indexer_types only supports full and shared");
  const Json* const indexers = given(config, "indexer_types");
  require(indexers == nullptr || indexers->empty() || indexers->front() == "full", "indexer_types",
          "indexer_types must start with a full indexer");
  require(flag(config, "enable_ihc"), "enable_ihc", "HYV4 requires enabled iHC with hc_mult > 0");
  require(head.gate == GateKind::elementwise, flag(config, "gated_mla") ? "gating_type" : "gated_mla",
          "HYV4 requires elementwise gated MLA");
  require(head.learnable_sink, "learnable_sink", "HYV4 requires learnable attention sinks");
  const Json* const rope = given(config, "rope_parameters");
  if (rope != nullptr && !rope->contains("rope_theta")) {
    throw Refused{"rope_parameters.rope_theta", "KeyError", "'rope_theta'"};
  }
  const std::size_t ranks = request.topology.tp_size;
  if (head.num_attention_heads % ranks != 0) {
    throw Refused{"num_attention_heads", "AssertionError",
                  fmt::format("{} attention heads do not divide among {} ranks", head.num_attention_heads, ranks)};
  }
  require(ranks <= head.n_routed_experts, "n_routed_experts",
          "Tensor parallel size is greater than the number of experts");
  const Json* const activation = given(config, "hidden_act");
  require(activation == nullptr || *activation == "silu", "hidden_act", "Only silu is supported for now.");
}

}  // namespace

HeadConfig draft_config(const LoadRequest& request) {
  const Json& config = request.config_json;
  HeadConfig head = request.config;
  if (!head.sparse_attention) {
    head.index_n_heads = size_of(config, "index_n_heads", 16);
    head.index_head_dim = size_of(config, "index_head_dim", 128);
  }
  if (!head.sparse_mlp) {
    head.n_routed_experts = size_of(config, "n_routed_experts", size_of(config, "num_local_experts", 256));
    head.n_shared_experts = size_of(config, "n_shared_experts", 1);
    head.moe_intermediate_size = size_of(config, "moe_intermediate_size", 768);
  }
  check(request, head);
  return head;
}

}  // namespace mtpcheck::sglang
