#include "harness/loading/vllm/load/load_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_map>

#include "harness/loading/plan/expert_projections.h"
#include "harness/loading/plan/load_log.h"
#include "harness/loading/symbolic/python_text.h"
#include "harness/loading/vllm/load/expert_loader.h"
#include "harness/loading/vllm/load/indexer_wk.h"
#include "harness/loading/vllm/load/linear_loader.h"
#include "harness/loading/vllm/names.h"

namespace mtpcheck::vllm {
namespace {

// A projection of the checkpoint that is part of a fused parameter of the model.
struct Stacked {
  std::string_view fused;
  std::string_view projection;
  std::size_t part;
};
constexpr std::array<Stacked, 4> kStacks{{{".gate_up_proj", ".gate_proj", 0},
                                          {".gate_up_proj", ".up_proj", 1},
                                          {".fused_qkv_a_proj", ".q_a_proj", 0},
                                          {".fused_qkv_a_proj", ".kv_a_proj_with_mqa", 1}}};
constexpr std::array<Stacked, 2> kIndexerStacks{
    {{".wk_weights_proj", ".wk", 0}, {".wk_weights_proj", ".weights_proj", 1}}};

// The load, tensor by tensor. Each step either takes a tensor or leaves it to the next; their order is vLLM's.
class WeightLoad {
 public:
  WeightLoad(const LoadRequest& request, const Quantisation& quantisation, const DraftHead& head, LoadPlan& plan)
      : request_(request), config_(request.config), quant_(quantisation.draft), head_(head), plan_(plan), log_(plan) {
    for (std::uint32_t index = 0; index < head.parameters.size(); ++index) {
      const std::string& name = head.parameters[index].parameter.name;
      by_name_.emplace(name, index);
      has_mla_ = has_mla_ || contains(name, "mla_attn");
      for (const std::string_view tag : {"w13_weight", "w2_weight"}) {
        if (!name.ends_with(tag)) continue;
        experts_[std::pair(name.substr(0, name.find(".experts.")), std::string(tag))] = name;
      }
    }
    loaded_.resize(head.parameters.size());
  }

  void run(const std::vector<std::uint32_t>& order) {
    for (const std::uint32_t tensor : order) {
      log_.begin_tensor(tensor);
      try {
        const Outcome without_loads = load_tensor(request_.headers.tensors[tensor]);
        plan_.tensors[tensor].outcome = log_.outcome_of_loads().value_or(without_loads);
      } catch (const Raised& raised) {
        plan_.tensors[tensor].outcome = Outcome::error;
        plan_.exception = {raised.type, raised.message, EngineException::Where::load_weights, tensor, {}};
        return;
      }
    }
    finish();
  }

  // DefaultModelLoader's check of models without quantisation. It first counts as loaded whatever belongs to a module
  // with a quantisation method, and "unquantised" is one; only the rest can be missed.
  void strict_check() {
    if (!plan_.loaded) return;
    std::set<std::string> loaded(plan_.loaded->begin(), plan_.loaded->end());
    std::vector<std::uint32_t> missing;
    for (const EngineParameter& entry : head_.parameters) {
      const std::string& name = entry.parameter.name;
      if (entry.exempt_from_strict_check) loaded.insert(name);
      // The experts hold the router's bias too, under a name of their own.
      if (entry.loader == Loader::experts) {
        loaded.insert(name.substr(0, name.rfind('.')) + ".e_score_correction_bias");
      }
    }
    for (const std::uint32_t index : plan_.unassigned) {
      if (!head_.parameters[index].exempt_from_strict_check) missing.push_back(index);
    }
    plan_.loaded->assign(loaded.begin(), loaded.end());
    if (missing.empty()) return;
    plan_.exception = {"ValueError",
                       "Following weights were not initialized from checkpoint: {" + names(missing, "'") + "}",
                       EngineException::Where::strict_check, kNone, missing};
  }

 private:
  std::optional<std::uint32_t> find(std::string_view name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return std::nullopt;
    return found->second;
  }

  void load(std::uint32_t parameter, const SourceView& weight, std::optional<std::size_t> part = std::nullopt) {
    load_parameter(head_.parameters[parameter], parameter, weight, part, log_);
    loaded_[parameter] = true;
  }

  Outcome load_tensor(const TensorView& header) {
    const SourceView weight(header, log_.tensor());
    if (const auto target = shared_target(header.name, config_.num_hidden_layers)) {
      if (const auto parameter = find(*target)) load(*parameter, weight);
      return Outcome::ignored;
    }
    const auto layer = mtp_layer_name(header.name, config_.num_hidden_layers, config_.num_nextn_predict_layers);
    if (!layer) return Outcome::ignored;
    const auto name = draft_name(*layer);
    plan_.tensors[log_.tensor()].engine_name = name.value_or("__skip__");
    if (!name) return Outcome::skipped;
    return load_layer_tensor(*name, weight);
  }

  Outcome load_layer_tensor(std::string name, SourceView weight) {
    rename_expert_scale(name, weight);
    if (contains(name, "mlp.gate.e_score_correction_bias")) {
      name = replace_all(name, "gate.e_score_correction_bias", "expert_bias");
    }
    const bool expert = contains(name, ".experts.");
    if (!expert && load_stacked(name, weight, kStacks)) return Outcome::loaded;
    if (const auto step = wk_pairs_.offer(name, weight); step.taken) {
      if (!step.dequantised) return Outcome::buffered;
      const auto parameter = find(step.parameter);
      if (!parameter) throw Raised{"KeyError", "'" + step.parameter + "'"};
      load(*parameter, *step.dequantised, 0);
      return Outcome::loaded;
    }
    if (!contains(name, "wk_weights") && load_stacked(name, weight, kIndexerStacks)) return Outcome::loaded;
    if (expert && load_experts(name, weight)) return Outcome::dropped_silently;
    return load_by_name(name, weight);
  }

  // `.scale` of an expert is a block scale, and its bytes are exponents where the configuration says so.
  void rename_expert_scale(std::string& name, SourceView& weight) const {
    constexpr std::string_view kScale = ".scale";
    if (!quant_ || !quant_->fp8_blocks() || !contains(name, ".mlp.experts.") || !name.ends_with(kScale)) return;
    name.replace(name.size() - kScale.size(), kScale.size(), ".weight_scale_inv");
    if (quant_->scheme.scale_dtype == Dtype::f8_e8m0 && weight.dtype() == Dtype::u8) {
      weight = weight.view_as(Dtype::f8_e8m0);
    }
  }

  // The first projection whose name occurs decides, found or not.
  template <std::size_t N>
  bool load_stacked(const std::string& name, const SourceView& weight, const std::array<Stacked, N>& stacks) {
    const auto stack =
        std::ranges::find_if(stacks, [&](const Stacked& entry) { return contains(name, entry.projection); });
    if (stack == stacks.end()) return false;
    const auto parameter = find(replace_all(name, stack->projection, stack->fused));
    if (!parameter) return false;
    load(*parameter, weight, stack->part);
    return true;
  }

  // True when the tensor is the experts', even if nothing of it was for this rank.
  bool load_experts(const std::string& name, const SourceView& weight) {
    for (const auto& [projection, tag] :
         {std::pair{".experts.gate_up_proj", "w13_weight"}, std::pair{".experts.down_proj", "w2_weight"}}) {
      if (contains(name, projection)) return load_fused_experts(name, projection, tag, weight);
    }
    const auto projections = split_expert_projections(name, config_.n_routed_experts, "experts.routed_experts.");
    for (const ExpertProjection& projection : projections) {
      if (const auto parameter = find(projection.parameter)) {
        if (load_one(*parameter, weight, projection.shard, projection.expert)) loaded_[*parameter] = true;
      }
    }
    return !projections.empty();
  }

  bool load_fused_experts(const std::string& name, std::string_view projection, const char* tag,
                          const SourceView& weight) {
    const auto base = experts_.find({name.substr(0, name.find(".experts.")), tag});
    if (base == experts_.end()) return false;
    const std::string suffix = name.substr(name.find(projection) + projection.size());
    const auto parameter = fused_target(base->second, suffix);
    if (!parameter) return false;
    bool written = false;
    if (std::string_view(tag) == "w2_weight") {
      written = load_every_expert(*parameter, weight, Shard::w2);
    } else {
      const std::vector<SourceView> halves = weight.halves();
      written = load_every_expert(*parameter, halves[0], Shard::w1);
      if (halves.size() < 2) throw Raised{"IndexError", "tuple index out of range"};
      written = load_every_expert(*parameter, halves[1], Shard::w3) && written;
    }
    if (written) loaded_[*parameter] = true;
    return true;
  }

  // No suffix: the weight. Any other: the parameter of that name, or else the scale, whatever the suffix says.
  std::optional<std::uint32_t> fused_target(const std::string& base, const std::string& suffix) const {
    if (suffix.empty()) return find(base);
    std::string tail = suffix.substr(std::min(suffix.find_first_not_of('.'), suffix.size()));
    if (constexpr std::string_view kWeight = "weight_"; tail.starts_with(kWeight)) tail.erase(0, kWeight.size());
    for (const std::string_view name :
         {std::string_view(tail), std::string_view("scale_inv"), std::string_view("scale")}) {
      if (const auto parameter = find(fmt::format("{}_{}", base, name))) return parameter;
    }
    return std::nullopt;
  }

  bool load_every_expert(std::uint32_t parameter, const SourceView& weight, Shard shard) {
    bool any = false;
    for (std::size_t expert = 0; expert < config_.n_routed_experts; ++expert) {
      any = load_one(parameter, weight.select(expert), shard, expert) || any;
    }
    return any;
  }

  bool load_one(std::uint32_t parameter, const SourceView& weight, Shard shard, std::size_t expert) {
    return load_expert(head_.parameters[parameter], parameter, weight, shard, expert, head_.local_expert, log_);
  }

  Outcome load_by_name(const std::string& name, const SourceView& weight) {
    const KvScaleName remapped =
        remap_kv_scale(name, has_mla_, [&](const std::string& candidate) { return find(candidate).has_value(); });
    if (!remapped.deprecation.empty()) log_.warn_once(EngineWarning::Kind::other, remapped.deprecation);
    if (!remapped.name) {
      const bool said = log_.warn_once(EngineWarning::Kind::kv_scale, remapped.warning);
      return said ? Outcome::kv_scale_warning : Outcome::dropped_silently;
    }
    if (const auto parameter = find(*remapped.name)) {
      load(*parameter, weight);
      return Outcome::loaded;
    }
    // An unquantised head has no use for scales, and says nothing.
    if (!quant_ && contains(*remapped.name, "_scale")) return Outcome::dropped_silently;
    const bool said =
        log_.warn_once(EngineWarning::Kind::unknown_weight, "Skipping unknown MTP weight: " + *remapped.name);
    return said ? Outcome::unknown_warning : Outcome::dropped_silently;
  }

  // The returned set, the warning about what got nothing, and the strict check of unquantised models.
  void finish() {
    std::vector<std::uint32_t> by_name(head_.parameters.size());
    std::iota(by_name.begin(), by_name.end(), 0U);
    std::ranges::sort(by_name, {}, [&](std::uint32_t index) { return plan_.parameters[index].name; });
    plan_.loaded.emplace();
    for (const std::uint32_t index : by_name) {
      if (loaded_[index]) {
        plan_.loaded->push_back(plan_.parameters[index].name);
      } else if (plan_.parameters[index].role != Role::kv_scale) {
        plan_.unassigned.push_back(index);
      }
    }
    if (!plan_.unassigned.empty()) {
      plan_.warnings.push_back({EngineWarning::Kind::unassigned, kNone,
                                fmt::format("HYV4 MTP draft model: {} parameters received no checkpoint value: {}",
                                            plan_.unassigned.size(), names(plan_.unassigned, ""))});
    }
  }

  std::string names(const std::vector<std::uint32_t>& parameters, std::string_view quote) const {
    std::vector<std::string> quoted;
    quoted.reserve(parameters.size());
    for (const std::uint32_t index : parameters) {
      quoted.push_back(fmt::format("{}{}{}", quote, plan_.parameters[index].name, quote));
    }
    return fmt::format("{}", fmt::join(quoted, ", "));
  }

  const LoadRequest& request_;
  const HeadConfig& config_;
  const std::optional<QuantConfig>& quant_;
  const DraftHead& head_;
  LoadPlan& plan_;
  LoadLog log_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
  std::map<std::pair<std::string, std::string>, std::string> experts_;
  bool has_mla_ = false;
  std::vector<bool> loaded_;
  IndexerWkPairs wk_pairs_;
};

}  // namespace

void load_weights(const LoadRequest& request, const Quantisation& quantisation, const DraftHead& head, LoadPlan& plan) {
  WeightLoad load(request, quantisation, head, plan);
  load.run(plan.read_order);
  if (!quantisation.model_is_quantised) load.strict_check();
}

}  // namespace mtpcheck::vllm
