// SGLang 0.5.23: how its HYV4ForCausalLMNextN draft model is loaded.
//
//   names        only model.mtp_layers.0.* is read. It becomes model.decoder.*, but for enorm, hnorm, eh_proj and the
//                last norm, which belong to the model itself. Everything else is ignored without a word.
//   shared       embedding and head are the target's; the layer's own copies are dropped.
//   layers       one, whatever num_nextn_predict_layers says, always with experts and an indexer of its own.
//   layout       the indexer turns its rope entries first: wq_b, wk, k_norm and their scales are permuted.
//   stacks       gate_proj and up_proj into gate_up_proj; q_a_proj and kv_a_proj_with_mqa, joined as soon as both are
//                there; the indexer's wk and weights_proj, an FP8 one as soon as its scales are there.
//   experts      one tensor an expert, or all packed in one: gate_up_proj, down_proj, and their _scale.
//   scales       .weight_scale is called .weight_scale_inv, always; no dtype is taken for another.
//   threads      weight loaders run in a pool: what one raises stops no other tensor. Packed experts, the indexer and
//                names that have no parameter are the main thread's: what it raises ends the load.
//   checks       none: whatever is missing stays as it was.
//
// Source: sglang/srt/models/{hunyuan_v4,hunyuan_v4_nextn,deepseek_v2}.py, models/deepseek_common/
// deepseek_weight_loader.py, configs/hy_v4.py, layers/ of the wheel sglang 0.5.23, checked against recorded runs of it
// (golden/loader-sglang). Its parameters are in head.cpp, its quantisation in quantisation.cpp, its weight loaders in
// linear_loaders.cpp and expert_loader.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>

#include "harness/loading/plan/expert_projections.h"
#include "harness/loading/plan/read_order.h"
#include "harness/loading/rules.h"
#include "harness/loading/sglang/head/config.h"
#include "harness/loading/sglang/head/head.h"
#include "harness/loading/sglang/load/indexer.h"
#include "harness/loading/sglang/load/pool.h"
#include "harness/loading/symbolic/python_text.h"
#include "harness/loading/symbolic/refused.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace sglang {
namespace {

// What belongs to the model and not to its decoder layer.
constexpr std::array<std::string_view, 4> kOfTheModel{"shared_head.norm", "eh_proj", "enorm", "hnorm"};

// Packed experts: the end of a tensor's name, and of the parameter's. The first end that fits decides.
struct Packed {
  std::string_view tensor;
  std::string_view parameter;
  bool down;
};
constexpr std::array<Packed, 4> kPacked{{{".experts.gate_up_proj_scale", ".experts.w13_weight_scale_inv", false},
                                         {".experts.down_proj_scale", ".experts.w2_weight_scale_inv", true},
                                         {".experts.gate_up_proj", ".experts.w13_weight", false},
                                         {".experts.down_proj", ".experts.w2_weight", true}}};

// Projections that are one matrix in the model.
struct Stacked {
  std::string_view fused;
  std::string_view projection;
  Shard shard;
};
constexpr std::array<Stacked, 2> kStacks{
    {{"gate_up_proj", "gate_proj", Shard::first}, {"gate_up_proj", "up_proj", Shard::second}}};

constexpr std::string_view kQueryDown = "q_a_proj";
constexpr std::string_view kKeyDown = "kv_a_proj_with_mqa";
constexpr std::string_view kBothDown = "fused_qkv_a_proj_with_mqa";

bool ends_in_bias(std::string_view name) { return name.ends_with(".bias"); }

// The load, tensor by tensor. Each step either takes a tensor, and then says what became of it, or leaves it to the
// next; their order is SGLang's.
class TensorByTensor {
 public:
  TensorByTensor(const LoadRequest& request, const std::optional<Quantisation>& quantisation, const DraftHead& head,
                 LoadPlan& plan)
      : request_(request), config_(request.config), pool_(head, plan), indexer_(config_, quantisation, pool_) {}

  void run() {
    pool_.run(request_.headers, [this](const TensorView& tensor, const SourceView& weight) {
      constexpr std::string_view kLayer = "model.mtp_layers.0";
      if (!tensor.name.starts_with(std::string(kLayer) + ".")) return Outcome::ignored;
      std::string name = replace_all(tensor.name, kLayer, layer());
      if (constexpr std::string_view kLast = ".final_layernorm.weight"; name.ends_with(kLast)) {
        name = replace_all(name, kLast, ".shared_head.norm.weight");
      }
      const JoinedView loaded = indexer_.rope_first(name, weight);
      if (name.ends_with(".weight_scale")) name += "_inv";
      return of_the_layer(name, loaded);
    });
  }

 private:
  using Step = std::optional<Outcome>;

  std::string layer() const { return fmt::format("model.layers.{}", config_.num_hidden_layers); }

  Outcome of_the_layer(std::string name, const JoinedView& weight) {
    // A backbone of one layer makes SGLang expect the MTP layer as layer 0, where its own renaming does not put it.
    if (config_.num_hidden_layers == 1) return Outcome::dropped_silently;
    if (contains(name, "shared_head.head") || contains(name, "embed_tokens")) return Outcome::dropped_silently;
    const bool of_the_model =
        std::ranges::any_of(kOfTheModel, [&](std::string_view word) { return contains(name, word); });
    name = replace_all(name, layer(), of_the_model ? "model" : "model.decoder");
    pool_.call_it(name);
    if (const Step step = packed_experts(name, weight)) return *step;
    if (contains(name, "rotary_emb.inv_freq")) return Outcome::dropped_silently;
    if (const Step step = indexer_.take(name, weight)) return *step;
    if (const Step step = stacked(name, weight)) return *step;
    if (const Step step = one_expert(name, weight)) return *step;
    if (ends_in_bias(name) && !pool_.find(name)) return Outcome::dropped_silently;
    if (contains(name, kQueryDown) || contains(name, kKeyDown)) return query_and_key(name, weight);
    return by_name(name, weight);
  }

  // All experts in one tensor; gate above up. Loaded by the main thread.
  Step packed_experts(const std::string& name, const JoinedView& weight) {
    const auto entry =
        std::ranges::find_if(kPacked, [&](const Packed& packed) { return name.ends_with(packed.tensor); });
    if (entry == kPacked.end()) return std::nullopt;
    const auto parameter =
        pool_.find(name.substr(0, name.size() - entry->tensor.size()) + std::string(entry->parameter));
    if (!parameter) return std::nullopt;
    const SourceView& experts = weight.whole();
    if (experts.ndim() == 0) throw Raised{"TypeError", "iteration over a 0-d tensor"};
    for (std::size_t expert = 0; expert < experts.size(0); ++expert) {
      const SourceView one = experts.select(expert);
      if (entry->down) {
        pool_.load_expert_now(*parameter, one, Shard::w2, expert);
        continue;
      }
      const std::vector<SourceView> halves = one.halves(0);
      if (halves.size() < 2) throw Raised{"ValueError", "not enough values to unpack (expected 2, got 1)"};
      pool_.load_expert_now(*parameter, halves[0], Shard::w1, expert);
      pool_.load_expert_now(*parameter, halves[1], Shard::w3, expert);
    }
    return pool_.outcome_of_loads().value_or(Outcome::loaded);
  }

  // Gate or up of a feed-forward. A projection that no parameter takes is a KeyError of the main thread; experts are
  // left to the next step. A renamed bias stays renamed.
  Step stacked(std::string& name, const JoinedView& weight) {
    for (const Stacked& entry : kStacks) {
      if (!contains(name, entry.projection)) continue;
      if (contains(name, "mlp.experts.") && !pool_.find(name)) continue;
      name = replace_all(name, entry.projection, entry.fused);
      if (ends_in_bias(name) && !pool_.find(name)) continue;
      return pool_.load(pool_.find_or_raise(name), weight, entry.shard);
    }
    return std::nullopt;
  }

  // One tensor an expert. Where no parameter has the name, it stays renamed.
  Step one_expert(std::string& name, const JoinedView& weight) {
    for (const ExpertProjection& projection : split_expert_projections(name, config_.n_routed_experts, "experts.")) {
      name = projection.parameter;
      const auto parameter = pool_.find(name);
      if (parameter) return pool_.load_expert(*parameter, weight.whole(), projection.shard, projection.expert);
    }
    return std::nullopt;
  }

  // The two down-projections wait for one another, weight for weight and scale for scale.
  Outcome query_and_key(const std::string& name, const JoinedView& weight) {
    waiting_.insert_or_assign(name, std::pair(weight.whole(), pool_.tensor()));
    const bool is_query = contains(name, kQueryDown);
    const std::string query_name = is_query ? name : replace_all(name, kKeyDown, kQueryDown);
    const std::string key_name = contains(name, kKeyDown) ? name : replace_all(name, kQueryDown, kKeyDown);
    const auto query = waiting_.find(query_name);
    const auto key = waiting_.find(key_name);
    if (query == waiting_.end() || key == waiting_.end()) return Outcome::buffered;
    const bool scalars = query->second.first.ndim() == 0 && key->second.first.ndim() == 0;
    const JoinedView both =
        scalars ? JoinedView(query->second.first) : JoinedView::cat({query->second.first, key->second.first});
    const std::uint32_t partner = is_query ? key->second.second : query->second.second;
    waiting_.erase(query_name);
    waiting_.erase(key_name);  // a name with both words is its own partner
    const std::string fused = with_block_scale(replace_all(name, is_query ? kQueryDown : kKeyDown, kBothDown));
    const auto parameter = pool_.find(fused);
    if (!parameter) return pool_.warn_not_found(fused);
    pool_.complete(partner);
    return pool_.load(*parameter, both);
  }

  Outcome by_name(std::string name, const JoinedView& weight) {
    for (const auto& [scale, projection] : {std::pair("k_scale", "k_proj"), std::pair("v_scale", "v_proj")}) {
      if (pool_.find(name) || !contains(name, scale)) continue;
      name = replace_all(name, projection, "attn_mqa");
      break;
    }
    name = with_block_scale(name);
    const auto parameter = pool_.find(name);
    if (!parameter) return pool_.warn_not_found(name);
    return pool_.load(*parameter, weight);
  }

  // Block scales that another exporter calls …weight_scale.
  std::string with_block_scale(const std::string& name) const {
    if (!name.ends_with("weight_scale") || pool_.find(name) || !pool_.find(name + "_inv")) return name;
    return name + "_inv";
  }

  const LoadRequest& request_;
  const HeadConfig& config_;
  Pool pool_;
  Indexer indexer_;
  std::map<std::string, std::pair<SourceView, std::uint32_t>> waiting_;  // down-projections, with their tensors
};

}  // namespace
}  // namespace sglang

LoadPlan plan_sglang_0_5_23(const LoadRequest& request) {
  check_topology(request.topology);
  if (!request.topology.expert_map.empty()) {
    throw usage_error("SGLang deals the draft head's experts out in turn: there is no expert map to give");
  }
  // Files are sorted as text: model-10 is read before model-2.
  LoadPlan plan = start_plan("sglang", "0.5.23", request,
                             read_order(request.headers, [](std::string_view a, std::string_view b) { return a < b; }));
  try {
    const auto quantisation = sglang::read_quantisation(request.config_json);
    const HeadConfig config = sglang::draft_config(request);
    const LoadRequest draft{.config = config,
                            .config_json = request.config_json,
                            .headers = request.headers,
                            .topology = request.topology,
                            .kv_cache_dtype = request.kv_cache_dtype,
                            .config_unchecked = request.config_unchecked};
    const sglang::DraftHead head = sglang::build_draft_head(draft, quantisation);
    plan.parameters.reserve(head.parameters.size());
    for (const sglang::EngineParameter& entry : head.parameters) plan.parameters.push_back(entry.parameter);
    sglang::TensorByTensor(draft, quantisation, head, plan).run();
  } catch (const Refused& refused) {
    plan.parameters.clear();
    plan.refusal = {refused.config_key, refused.type, refused.message};
  }
  return plan;
}

}  // namespace mtpcheck
