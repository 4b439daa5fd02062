#include "harness/parity/reference_side/reference_side.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "harness/parity/comparison/selections.h"
#include "harness/parity/dump/layout.h"
#include "harness/parity/reference_side/nearby_input.h"
#include "harness/parity/trace/chain.h"
#include "reference/head/recording.h"
#include "reference/head/reference_head.h"
#include "reference/head/stages/stage_inputs.h"
#include "reference/math/router.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

Precision precision_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return Precision::f64;
    case Dtype::f32:
      return Precision::f32;
    case Dtype::bf16:
      return Precision::bf16;
    case Dtype::f16:
      return Precision::f16;
    default:
      throw usage_error("the reference runs in f64, f32, bf16 or f16");
  }
}

/// Recorded even where it is not compared: what is chosen, and by which scores.
bool settles_selections(Stage stage) {
  return stage == Stage::indexer_scores || stage == Stage::topk_indices || stage == Stage::router_logits ||
         stage == Stage::topk_experts;
}

/// Everything the closures of ReferenceRuns share: the sides, and one head a precision, made when it is first needed.
class SharedReference {
 public:
  SharedReference(ReferenceSide side, std::vector<HeadInput> steps, std::function<bool(Stage)> wanted)
      : side_(std::move(side)),
        steps_(std::move(steps)),
        wanted_(std::move(wanted)),
        shapes_(expected_stages(side_.config, steps_)) {}

  Trace run(Dtype precision, const std::vector<Selections>& forced) {
    return follow_chain(head(precision), steps_, forced,
                        [this](Stage stage) { return !wanted_ || wanted_(stage) || settles_selections(stage); });
  }

  Trace replay(Dtype precision, const Trace& candidate) {
    Trace trace;
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      for (const Stage stage : stages_of(side_.config)) {
        if (wanted_ && !wanted_(stage)) continue;
        for (auto& [key, tensor] : replayed(precision, stage, step, steps_[step], candidate, {}, {})) {
          trace.insert_or_assign(key, std::move(tensor));
        }
      }
    }
    return trace;
  }

  Trace run_nearby(Dtype precision, const std::vector<Selections>& forced, const Nearby& nearby) {
    std::vector<HeadInput> steps;
    for (const auto& step : steps_) steps.push_back(nearby_input(step, nearby.sample));
    return follow_chain(head(precision), steps, forced, [&](Stage stage) {
      return nearby.stages.contains(stage) || (steps.size() > 1 && stage == Stage::final_layernorm);
    });
  }

  Trace replay_nearby(Dtype precision, const Trace& candidate, const Nearby& nearby) {
    std::set<Stage> moved = {Stage::kv_c, Stage::k_pe, Stage::indexer_k};  // what steps before have cached
    for (const Stage stage : nearby.stages) {
      for (const auto& inputs : stage_inputs(stage, side_.config, side_.conventions)) {
        moved.insert(inputs.begin(), inputs.end());
      }
    }
    const Trace inputs = nearby_trace(candidate, moved, nearby.sample);
    Trace trace;
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      const HeadInput input = nearby_input(steps_[step], nearby.sample);
      for (const Stage stage : nearby.stages) {
        for (auto& [key, tensor] : replayed(precision, stage, step, input, inputs, {}, {})) {
          trace.insert_or_assign(key, std::move(tensor));
        }
      }
    }
    return trace;
  }

  Tensor deviate(const KnownDeviation& deviation, const StageKey& key, const Trace& candidate) {
    if (std::ranges::find(deviation.stages, key.stage) == deviation.stages.end()) return {};
    Conventions conventions = side_.conventions;
    Deviations deviations;
    deviation.apply(conventions, deviations);
    HeadInput input = steps_[key.step];
    if (deviation.feed) deviation.feed(input);
    for (auto& [found, tensor] : replayed(Dtype::f64, key.stage, key.step, input, candidate, conventions, deviations)) {
      if (found == key) return std::move(tensor);
    }
    return {};
  }

  std::vector<std::vector<double>> expert_scores(const TensorView& router_logits) const {
    const auto& moe = side_.weights.layers.front().moe;
    if (!moe) return {};
    const auto tokens = static_cast<Eigen::Index>(router_logits.shape.front());
    const auto experts = static_cast<Eigen::Index>(router_logits.shape.back());
    const std::vector<double> values = to_f64(router_logits);
    const Rows<double> logits = Eigen::Map<const Rows<double>>(values.data(), tokens, experts);
    ExpertGroups groups;
    if (side_.conventions.group_routing) groups = {side_.config.n_group, side_.config.topk_group};
    const Rows<double> scores = selection_scores(logits, moe->expert_bias, groups);
    std::vector<std::vector<double>> rows;
    for (Eigen::Index i = 0; i < tokens; ++i) rows.emplace_back(scores.row(i).begin(), scores.row(i).end());
    return rows;
  }

  const ReferenceSide& side() const { return side_; }

 private:
  ReferenceHead& head(Dtype precision) {
    auto& made = heads_[precision];
    if (!made) {
      ReferenceOptions options;
      options.precision = precision_of(precision);
      options.rounding_preset = side_.rounding_preset;
      options.activations = side_.activations;
      options.sums_in_order = precision == Dtype::f32;
      made = make_reference_head(side_.config, side_.weights, side_.conventions, options);
    }
    return *made;
  }

  std::vector<std::pair<StageKey, Tensor>> replayed(Dtype precision, Stage stage, std::size_t step,
                                                    const HeadInput& input, const Trace& candidate,
                                                    const std::optional<Conventions>& conventions,
                                                    const std::optional<Deviations>& deviations) {
    ReplayOptions options;
    options.step = step;
    options.spec_step_idx = step;
    options.conventions = conventions;
    options.deviations = deviations;
    std::vector<Tensor> kept;  // what the views of the past point into
    if (!cached_before(step, candidate, options.past, kept)) return {};
    const RecordedStages recorded = [&](const StageKey& key) -> std::optional<TensorView> {
      const Tensor* const tensor = find(candidate, key);
      const auto shape = shapes_.find(key);
      const bool values = info(key.stage).kind == StageKind::values;
      if (tensor == nullptr || shape == shapes_.end() || (values && tensor->shape != shape->second))
        return std::nullopt;
      if (!values && !can_be_replayed(key, *tensor, shape->second)) return std::nullopt;
      return tensor->view(to_string(key));
    };
    try {
      std::vector<std::pair<StageKey, Tensor>> result;
      for (auto& [key, value] : head(precision).replay(stage, input, recorded, options)) {
        result.emplace_back(key, std::move(value));
      }
      return result;
    } catch (const Error&) {
      return {};  // the candidate's inputs to this stage are impossible (a key that does not exist): no replay of it
    }
  }

  /// The rows that the steps before have cached, in the layer that runs this step. False when some were not recorded.
  bool cached_before(std::size_t step, const Trace& candidate, std::vector<RecordedPast>& past,
                     std::vector<Tensor>& kept) const {
    const std::size_t layers = side_.weights.layers.size();
    std::vector<std::size_t> earlier;
    for (std::size_t before = step % layers; before < step; before += layers) earlier.push_back(before);
    if (earlier.empty()) return true;
    const std::size_t sequences = steps_[step].sequences();
    kept.reserve(sequences * 3);
    for (std::size_t s = 0; s < sequences; ++s) {
      RecordedPast rows;
      for (const auto& [stage, view] : {std::pair{Stage::kv_c, &rows.kv_c}, std::pair{Stage::k_pe, &rows.k_pe},
                                        std::pair{Stage::indexer_k, &rows.indexer_k}}) {
        if (stage == Stage::indexer_k && !side_.config.sparse_attention) continue;
        std::vector<Tensor> parts;
        for (const std::size_t before : earlier) {
          const Tensor* const tensor = find(candidate, {stage, before, {}});
          if (tensor == nullptr) return false;
          const auto& starts = steps_[before].cu_seqlens;
          if (tensor->shape.empty() || tensor->shape.front() != static_cast<std::size_t>(starts.back())) return false;
          parts.push_back(slice(*tensor, 0, static_cast<std::size_t>(starts[s]),
                                static_cast<std::size_t>(starts[s + 1] - starts[s])));
        }
        kept.push_back(joined(parts, 0));
        *view = kept.back().view(to_string(StageKey{stage, earlier.back(), {}}));
      }
      past.push_back(rows);
    }
    return true;
  }

  ReferenceSide side_;
  std::vector<HeadInput> steps_;
  std::function<bool(Stage)> wanted_;
  ExpectedStages shapes_;
  std::map<Dtype, std::unique_ptr<ReferenceHead>> heads_;
};

}  // namespace

ReferenceRuns make_reference_runs(const ReferenceSide& side, std::vector<HeadInput> steps,
                                  const std::function<bool(Stage)>& wanted) {
  const auto shared = std::make_shared<SharedReference>(side, std::move(steps), wanted);
  ReferenceRuns runs;
  runs.run = [shared](Dtype precision, const std::vector<Selections>& forced) {
    return shared->run(precision, forced);
  };
  runs.compared = wanted;
  runs.expert_scores = [shared](const TensorView& logits) { return shared->expert_scores(logits); };
  runs.replay = [shared](Dtype precision, const Trace& candidate) { return shared->replay(precision, candidate); };
  runs.run_nearby = [shared](Dtype precision, const std::vector<Selections>& forced, const Nearby& nearby) {
    return shared->run_nearby(precision, forced, nearby);
  };
  runs.replay_nearby = [shared](Dtype precision, const Trace& candidate, const Nearby& nearby) {
    return shared->replay_nearby(precision, candidate, nearby);
  };
  for (const auto& deviation : known_deviations(side)) {
    runs.deviations.push_back({deviation.description, static_cast<bool>(deviation.feed),
                               [shared, deviation](const StageKey& key, const Trace& candidate) {
                                 return shared->deviate(deviation, key, candidate);
                               }});
  }
  return runs;
}

ExpectedStages expected_stages(const HeadConfig& config, const std::vector<HeadInput>& steps,
                               const std::function<bool(Stage)>& wanted) {
  ExpectedStages expected;
  std::vector<std::size_t> cached(steps.front().sequences(), 0);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const auto& starts = steps[step].cu_seqlens;
    for (std::size_t s = 0; s < cached.size(); ++s) cached[s] += static_cast<std::size_t>(starts[s + 1] - starts[s]);
    for (const Stage stage : stages_of(config)) {
      if (wanted && !wanted(stage)) continue;
      if (!info(stage).per_sequence || cached.size() == 1) {
        expected[{stage, step, {}}] = shape_of_stage(stage, config, steps[step].tokens(), cached.front());
        continue;
      }
      for (std::size_t s = 0; s < cached.size(); ++s) {
        const auto rows = static_cast<std::size_t>(starts[s + 1] - starts[s]);
        expected[{stage, step, s}] = shape_of_stage(stage, config, rows, cached[s]);
      }
    }
  }
  return expected;
}

}  // namespace mtpcheck
