#include "reference/model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using nlohmann::json;

// Reads the keys of one JSON object; every message names the file and the key.
class Keys {
 public:
  Keys(const json& object, std::string place) : object_(object), place_(std::move(place)) {}

  bool has(const char* key) const { return object_.contains(key); }
  bool stated(const char* key) const { return has(key) && !object_.at(key).is_null(); }
  const json& at(const char* key) const { return object_.at(key); }

  [[noreturn]] void fail(std::string_view key, std::string_view reason) const {
    throw input_error(fmt::format("{}: {} {}", place_, key, reason));
  }

  std::size_t count(const char* key) const {
    const json& value = object_.at(key);
    if (!value.is_number_unsigned()) {
      // A number parsed from text is unsigned when it is not negative; one built in a program may be signed.
      if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
        fail(key, fmt::format("is {}; a whole number, not negative, was expected", shown(value)));
      }
    }
    return value.get<std::size_t>();
  }

  std::size_t dimension(const char* key) const {
    if (!stated(key)) {
      fail(key,
           "is missing. The engine would take its class's default, the dimension of a smaller model, without a word: "
           "state it");
    }
    const std::size_t value = count(key);
    if (value == 0) fail(key, "is 0; a dimension is at least 1");
    return value;
  }

  std::size_t count_or(const char* key, std::size_t otherwise) const { return has(key) ? count(key) : otherwise; }

  double number_or(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    const json& value = object_.at(key);
    if (!value.is_number()) fail(key, fmt::format("is {}; a number was expected", shown(value)));
    const auto number = value.get<double>();
    if (!std::isfinite(number)) fail(key, "is not a finite number");
    return number;
  }

  bool flag_or(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    const json& value = object_.at(key);
    if (!value.is_boolean()) fail(key, fmt::format("is {}; true or false was expected", shown(value)));
    return value.get<bool>();
  }

  std::string text_or(const char* key, std::string otherwise) const {
    if (!has(key)) return otherwise;
    const json& value = object_.at(key);
    if (!value.is_string()) fail(key, fmt::format("is {}; a text was expected", shown(value)));
    return value.get<std::string>();
  }

  std::vector<std::string> texts_or_none(const char* key) const {
    if (!stated(key)) return {};
    const json& value = object_.at(key);
    const bool texts = value.is_array() && std::ranges::all_of(value, [](const json& one) { return one.is_string(); });
    if (!texts) fail(key, fmt::format("is {}; a list of texts was expected", shown(value)));
    return value.get<std::vector<std::string>>();
  }

 private:
  static std::string shown(const json& value) {
    const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    return text.size() <= 60 ? text : text.substr(0, 57) + "...";
  }

  const json& object_;
  std::string place_;
};

RopeParameters parse_rope(const Keys& config, const json& root, const std::string& file) {
  RopeParameters rope;
  const json empty = json::object();
  const bool modern = config.stated("rope_parameters");
  const char* const section = modern ? "rope_parameters" : "rope_scaling";
  const json& written = modern || config.stated("rope_scaling") ? root.at(section) : empty;
  if (!written.is_object()) config.fail(section, "is not an object");
  const Keys keys(written, fmt::format("{}: {}", file, section));

  rope.type = keys.text_or("rope_type", keys.text_or("type", rope.type));
  rope.theta = keys.number_or("rope_theta", config.number_or("rope_theta", rope.theta));
  rope.factor = keys.number_or("factor", rope.factor);
  rope.original_max_position_embeddings = keys.number_or("original_max_position_embeddings", 0);
  rope.beta_fast = keys.number_or("beta_fast", rope.beta_fast);
  rope.beta_slow = keys.number_or("beta_slow", rope.beta_slow);
  rope.mscale = keys.number_or("mscale", rope.mscale);
  rope.mscale_all_dim = keys.number_or("mscale_all_dim", rope.mscale_all_dim);
  if (keys.stated("attention_factor")) rope.attention_factor = keys.number_or("attention_factor", 0);
  rope.low_freq_factor = keys.number_or("low_freq_factor", rope.low_freq_factor);
  rope.high_freq_factor = keys.number_or("high_freq_factor", rope.high_freq_factor);
  rope.truncate = keys.flag_or("truncate", rope.truncate);

  if (!(rope.theta > 0)) keys.fail("rope_theta", fmt::format("is {}; it must be positive", rope.theta));
  if (!(rope.factor > 0)) keys.fail("factor", fmt::format("is {}; it must be positive", rope.factor));
  if (rope.original_max_position_embeddings < 0) keys.fail("original_max_position_embeddings", "is negative");
  if (const double part = keys.number_or("partial_rotary_factor", 1); part != 1) {
    keys.fail("partial_rotary_factor", fmt::format("is {}; HY V4 rotates all of qk_rope_head_dim", part));
  }
  return rope;
}

// The entry of a per-layer list for the MTP layers: entry L, or the last one where the list ends with the backbone.
std::string kind_of_mtp_layers(const Keys& keys, const char* key, const std::vector<std::string>& kinds,
                               const HeadConfig& config) {
  const std::size_t layers = config.num_hidden_layers;
  const std::size_t built = std::max<std::size_t>(config.num_nextn_predict_layers, 1);
  if (kinds.size() < layers || kinds.size() - layers > built) {
    keys.fail(key, fmt::format("has {} entries; {} (the backbone's layers) to {} (with the MTP layers) were expected",
                               kinds.size(), layers, layers + built));
  }
  if (kinds.size() == layers) return kinds.back();
  const auto first = kinds.begin() + static_cast<std::ptrdiff_t>(layers);
  if (std::any_of(first, kinds.end(), [&](const std::string& kind) { return kind != *first; }) ||
      (kinds.size() - layers < built && kinds.back() != *first)) {
    keys.fail(key, "gives the MTP layers different kinds, which is not supported");
  }
  return *first;
}

void read_layer_kinds(const Keys& keys, HeadConfig& config) {
  static constexpr std::array kSparse{"sparse", "sparse_attention", "indexed_attention", "deepseek_sparse_attention"};
  config.layer_types = keys.texts_or_none("layer_types");
  if (keys.stated("layer_types")) {
    const std::string kind = kind_of_mtp_layers(keys, "layer_types", config.layer_types, config);
    config.sparse_attention = std::ranges::find(kSparse, kind) != kSparse.end();
    if (!config.sparse_attention && kind != "full_attention" && kind != "full" && kind != "dense") {
      keys.fail("layer_types", fmt::format("has \"{}\" for the MTP layer; full_attention, sparse_attention, "
                                           "indexed_attention and deepseek_sparse_attention are known",
                                           kind));
    }
  }
  config.mlp_layer_types = keys.texts_or_none("mlp_layer_types");
  config.sparse_mlp = config.num_hidden_layers > 1;  // absent: one dense layer, the rest sparse
  if (keys.stated("mlp_layer_types")) {
    const std::string kind = kind_of_mtp_layers(keys, "mlp_layer_types", config.mlp_layer_types, config);
    if (kind != "sparse" && kind != "dense") {
      keys.fail("mlp_layer_types", fmt::format("has \"{}\" for the MTP layer; dense and sparse are known", kind));
    }
    config.sparse_mlp = kind == "sparse";
  }
}

void read_indexer(const Keys& keys, HeadConfig& config) {
  if (!config.sparse_attention) return;
  config.index_n_heads = keys.dimension("index_n_heads");
  config.index_head_dim = keys.dimension("index_head_dim");
  config.index_topk = keys.dimension("index_topk");
  if (config.index_head_dim < config.qk_rope_head_dim) {
    keys.fail("index_head_dim", fmt::format("is {}, less than qk_rope_head_dim {}: RoPE rotates the last entries of "
                                            "the indexer's heads",
                                            config.index_head_dim, config.qk_rope_head_dim));
  }
}

void read_experts(const Keys& keys, HeadConfig& config) {
  const char* const experts = keys.stated("n_routed_experts") || !keys.has("num_local_experts")
                                  ? "n_routed_experts"
                                  : "num_local_experts";  // the name under which transformers also knows it
  config.n_routed_experts = keys.dimension(experts);
  config.num_experts_per_tok = keys.dimension("num_experts_per_tok");
  config.moe_intermediate_size = keys.dimension("moe_intermediate_size");
  config.n_shared_experts = keys.count_or("n_shared_experts", config.n_shared_experts);
  config.n_group = keys.count_or("n_group", config.n_group);
  config.topk_group = keys.count_or("topk_group", config.topk_group);
  config.norm_topk_prob = keys.flag_or("norm_topk_prob", config.norm_topk_prob);
  config.routed_scaling_factor = keys.number_or("routed_scaling_factor", config.routed_scaling_factor);
  config.swiglu_limit = std::max(keys.number_or("swiglu_limit", config.swiglu_limit), 0.0);
  if (config.num_experts_per_tok > config.n_routed_experts) {
    keys.fail("num_experts_per_tok",
              fmt::format("is {}, but there are only {} experts", config.num_experts_per_tok, config.n_routed_experts));
  }
  if (config.n_group == 0 || config.n_routed_experts % config.n_group != 0) {
    keys.fail("n_group", fmt::format("is {}, which does not divide the {} experts into equal groups", config.n_group,
                                     config.n_routed_experts));
  }
  if (config.topk_group == 0 || config.topk_group > config.n_group) {
    keys.fail("topk_group", fmt::format("is {}; 1 to n_group {} were expected", config.topk_group, config.n_group));
  }
  const std::size_t eligible = config.topk_group * (config.n_routed_experts / config.n_group);
  if (config.num_experts_per_tok > eligible) {
    keys.fail("num_experts_per_tok", fmt::format("is {}, but the {} chosen groups hold only {} experts",
                                                 config.num_experts_per_tok, config.topk_group, eligible));
  }
}

// No tensor of the head may have more bytes in float64 than an offset can express.
void check_sizes(const Keys& keys, const HeadConfig& c) {
  const auto fits = [&](const char* what, std::initializer_list<std::size_t> factors) {
    std::size_t product = 8;
    for (const std::size_t factor : factors) {
      if (factor != 0 && product > std::numeric_limits<std::int64_t>::max() / factor) {
        keys.fail(what, "and the dimensions that it is multiplied with overflow 63 bits");
      }
      product *= factor;
    }
  };
  for (const std::size_t one : {c.hidden_size, c.vocab_size, c.num_attention_heads, c.q_lora_rank, c.kv_lora_rank,
                                c.qk_nope_head_dim, c.qk_rope_head_dim, c.v_head_dim, c.index_n_heads, c.index_head_dim,
                                c.index_topk, c.n_routed_experts, c.n_shared_experts, c.moe_intermediate_size,
                                c.intermediate_size, c.num_hidden_layers, c.num_nextn_predict_layers}) {
    if (one > (std::size_t{1} << 40)) keys.fail("a dimension", fmt::format("is {}, more than 2^40", one));
  }
  // What is gone through one by one: a slip of the pen must not keep a reader busy for hours.
  const auto at_most = [&](const char* what, std::size_t count, std::size_t limit) {
    if (count > limit) keys.fail(what, fmt::format("is {}, more than the {} that any model has", count, limit));
  };
  at_most("num_hidden_layers", c.num_hidden_layers, 10'000);
  at_most("num_nextn_predict_layers", c.num_nextn_predict_layers, 1'000);
  at_most("n_routed_experts", c.n_routed_experts, 65'536);
  at_most("num_attention_heads", c.num_attention_heads, 65'536);
  at_most("index_n_heads", c.index_n_heads, 65'536);
  fits("vocab_size", {c.vocab_size, c.hidden_size});
  fits("hidden_size", {2, c.hidden_size, c.hidden_size});
  fits("num_attention_heads", {c.num_attention_heads, c.qk_nope_head_dim + c.qk_rope_head_dim, c.q_lora_rank});
  fits("num_attention_heads", {c.num_attention_heads, c.qk_nope_head_dim + c.v_head_dim, c.kv_lora_rank});
  fits("num_attention_heads", {c.num_attention_heads, c.v_head_dim, c.hidden_size});
  fits("q_lora_rank", {c.q_lora_rank + c.kv_lora_rank + c.qk_rope_head_dim, c.hidden_size});
  fits("index_n_heads", {c.index_n_heads, c.index_head_dim, c.q_lora_rank});
  fits("index_head_dim", {c.index_head_dim + c.index_n_heads, c.hidden_size});
  fits("n_routed_experts", {2, c.n_routed_experts, c.moe_intermediate_size, c.hidden_size});
  fits("n_shared_experts", {2, c.n_shared_experts, c.moe_intermediate_size, c.hidden_size});
  fits("intermediate_size", {2, c.intermediate_size, c.hidden_size});
}

}  // namespace

HeadConfig parse_head_config(const json& root, const std::string& file) {
  if (!root.is_object()) throw input_error(fmt::format("{}: not a JSON object", file));
  const Keys keys(root, file);
  HeadConfig config;
  config.model_type = keys.text_or("model_type", "");
  config.num_hidden_layers = keys.dimension("num_hidden_layers");
  if (keys.has("num_nextn_predict_layers")) {
    // Exporters write null for "none"; what the files hold is then compared with 0 (FAULTS N12).
    config.num_nextn_predict_layers =
        keys.stated("num_nextn_predict_layers") ? keys.count("num_nextn_predict_layers") : 0;
  }
  config.hidden_size = keys.dimension("hidden_size");
  config.vocab_size = keys.dimension("vocab_size");
  config.num_attention_heads = keys.dimension("num_attention_heads");
  config.q_lora_rank = keys.dimension("q_lora_rank");
  config.kv_lora_rank = keys.dimension("kv_lora_rank");
  config.qk_nope_head_dim = keys.dimension("qk_nope_head_dim");
  config.qk_rope_head_dim = keys.dimension("qk_rope_head_dim");
  config.v_head_dim = keys.dimension("v_head_dim");
  if (config.qk_rope_head_dim % 2 != 0) {
    keys.fail("qk_rope_head_dim",
              fmt::format("is {}; RoPE rotates pairs, so it must be even", config.qk_rope_head_dim));
  }

  read_layer_kinds(keys, config);
  read_indexer(keys, config);
  if (config.sparse_mlp) {
    read_experts(keys, config);
  } else {
    config.intermediate_size = keys.dimension("intermediate_size");
  }

  config.rms_norm_eps = keys.number_or("rms_norm_eps", config.rms_norm_eps);
  if (config.rms_norm_eps < 0) keys.fail("rms_norm_eps", "is negative");
  if (!keys.flag_or("gated_mla", true)) {
    config.gate = GateKind::none;
  } else {
    const std::string gating = keys.text_or("gating_type", "elementwise");
    if (gating != "elementwise" && gating != "headwise") {
      keys.fail("gating_type", fmt::format("is \"{}\"; elementwise and headwise are known", gating));
    }
    config.gate = gating == "headwise" ? GateKind::headwise : GateKind::elementwise;
  }
  config.learnable_sink = keys.flag_or("learnable_sink", config.learnable_sink);
  config.tie_word_embeddings = keys.flag_or("tie_word_embeddings", config.tie_word_embeddings);
  if (keys.stated("max_position_embeddings")) config.max_position_embeddings = keys.count("max_position_embeddings");
  config.rope = parse_rope(keys, root, file);
  check_sizes(keys, config);
  return config;
}

}  // namespace mtpcheck
