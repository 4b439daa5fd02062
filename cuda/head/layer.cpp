#include "cuda/head/layer.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "cuda/kernels/attention/output_gate.h"
#include "cuda/kernels/attention/sparse_attention.h"
#include "cuda/kernels/indexer/index_key.h"
#include "cuda/kernels/indexer/index_layout.h"
#include "cuda/kernels/indexer/index_query.h"
#include "cuda/kernels/indexer/index_scores.h"
#include "cuda/kernels/indexer/top_k.h"
#include "cuda/kernels/linear/linear.h"
#include "cuda/kernels/linear/linear_f32.h"
#include "cuda/kernels/moe/combine.h"
#include "cuda/kernels/moe/dispatch.h"
#include "cuda/kernels/moe/experts.h"
#include "cuda/kernels/moe/router.h"
#include "cuda/kernels/norm/add_rms_norm.h"
#include "cuda/kernels/norm/embed_concat.h"
#include "cuda/kernels/norm/latent.h"
#include "cuda/kernels/norm/query_rope.h"
#include "cuda/kernels/numeric/rows.h"
#include "reference/math/rope.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

/// The pieces of one layer's run that every step of it needs.
struct Run {
  Stream stream;
  const LayerSettings& settings;
  const DeviceLayer& weights;
  const __nv_bfloat16* embedding;
  const LayerCache& cache;
  const StepRows& rows;
  const Activations& a;
  GemmLibrary& library;
  const LayerDemands& demands;

  const HeadShape& shape() const { return settings.shape; }
  void part(std::string_view name) const {
    if (demands.before_part) demands.before_part(name);
  }
  LatentLayout layout() const { return {shape().kv_rank, shape().rope}; }

  LinearSegment segment(const DeviceMatrix& matrix, __nv_bfloat16* y) const {
    return {.weight = matrix.view, .y = y, .y_stride = row_stride(matrix.view.rows)};
  }
  LinearSegment segment_f32(const DeviceMatrix& matrix, float* y) const {
    return {.weight = matrix.view, .y_f32 = y, .y_stride = row_stride(matrix.view.rows)};
  }

  /// Matrices that read one x: those that the library takes, then the others in one launch.
  void multiply(const __nv_bfloat16* x, int width, std::initializer_list<LinearSegment> segments) const {
    Linear own{.tokens = rows.tokens, .x = x, .x_stride = width, .segments = 0, .segment = {}};
    for (const auto& segment : segments) {
      if (!library.multiply(stream, own, segment)) own.segment[own.segments++] = segment;
    }
    if (own.segments > 0) linear(stream, own);
  }

  void multiply_wide(const __nv_bfloat16* x, const WideMatrix& matrix, float* y) const {
    if (matrix.narrow) return multiply(x, row_stride(matrix.cols), {segment_f32(*matrix.narrow, y)});
    linear_f32(
        stream,
        {.tokens = rows.tokens, .rows = matrix.rows, .cols = matrix.cols, .x = x, .weight = matrix.data, .y = y});
  }

  void input() const;
  void projections() const;
  void indexer() const;
  void choose_keys() const;
  void attention() const;
  void route() const;
  void mlp() const;
};

void Run::input() const {
  part("embed_concat");
  embed_concat(stream, {.tokens = rows.tokens,
                        .hidden = shape().hidden,
                        .ids = rows.ids,
                        .positions = rows.positions,
                        .embedding = embedding,
                        .inputs_embeds = rows.inputs_embeds,
                        .hidden_states = rows.hidden_states,
                        .enorm = weights.enorm.data(),
                        .hnorm = weights.hnorm.data(),
                        .eps = settings.eps,
                        .position_zero_mask = settings.position_zero_mask,
                        .concatenated = a.concatenated.data(),
                        .embed_masked = demands.embed_masked ? a.embed_masked.data() : nullptr});
  part("eh_proj");
  multiply(a.concatenated.data(), row_stride(2 * shape().hidden), {segment(weights.eh_proj, a.eh_proj.data())});
  part("input_layernorm");
  add_rms_norm(stream, {.rows = rows.tokens,
                        .width = shape().hidden,
                        .x = a.eh_proj.data(),
                        .weight = weights.input_layernorm.data(),
                        .eps = settings.eps,
                        .y = a.input_layernorm.data()});
}

/// Everything that reads input_layernorm in one launch, then the two latents, then what reads the query's.
void Run::projections() const {
  part("gate, q_a, kv_a, index key and weights");
  Linear all{.tokens = rows.tokens,
             .x = a.input_layernorm.data(),
             .x_stride = row_stride(shape().hidden),
             .segments = 0,
             .segment = {}};
  const auto add = [&](const LinearSegment& segment) {
    if (!library.multiply(stream, all, segment)) all.segment[all.segments++] = segment;
  };
  if (settings.gated) add(segment(*weights.linear_gate, a.gate.data()));
  add(segment(weights.q_a_proj, a.q_a.data()));
  add(segment(weights.kv_a_proj, a.kv_a.data()));
  if (shape().sparse()) {
    add(segment(*weights.index_key, a.index_projected.data()));
    add(segment_f32(*weights.index_weights, a.index_raw_weights.data()));
  }
  if (all.segments > 0) linear(stream, all);

  part("latent_norms");
  latent_norms(stream, {.tokens = rows.tokens,
                        .q_rank = shape().q_rank,
                        .kv_rank = shape().kv_rank,
                        .q_a = a.q_a.data(),
                        .kv_a = a.kv_a.data(),
                        .q_norm = weights.q_a_layernorm.data(),
                        .kv_norm = weights.kv_a_layernorm.data(),
                        .eps = settings.latent_eps,
                        .positions = rows.positions,
                        .rope = settings.rope,
                        .q_c = a.q_c.data(),
                        .cache = cache.latents(),
                        .cache_rows = rows.cache_rows});
  part("q_b, index query");
  if (shape().sparse()) {
    multiply(a.q_c.data(), row_stride(shape().q_rank),
             {segment(weights.q_b_proj, a.q.data()), segment(*weights.index_query, a.index_q.data())});
  } else {
    multiply(a.q_c.data(), row_stride(shape().q_rank), {segment(weights.q_b_proj, a.q.data())});
  }
  part("query_rope");
  query_rope(stream, {.tokens = rows.tokens,
                      .heads = shape().heads,
                      .nope = shape().nope,
                      .kv_rank = shape().kv_rank,
                      .q = a.q.data(),
                      .positions = rows.positions,
                      .rope = settings.rope,
                      .query = a.query.data()});
  part("absorb_query");
  multiply(a.q.data(), row_stride(shape().heads * shape().query_dims()),
           {{.weight = weights.absorb_query.view,
             .matrices = shape().heads,
             .x_step = shape().query_dims(),
             .y = a.query.data(),
             .y_stride = static_cast<std::int64_t>(shape().heads) * layout().stride,
             .y_step = layout().stride}});
}

void Run::indexer() const {
  part("index_key, index_query");
  index_key(stream, {.tokens = rows.tokens,
                     .dims = shape().index_dims,
                     .projected = a.index_projected.data(),
                     .norm_weight = weights.index_norm_weight.data(),
                     .norm_bias = weights.index_norm_bias.data(),
                     .eps = settings.index_eps,
                     .positions = rows.positions,
                     .rope = settings.index_rope,
                     .cache_rows = rows.cache_rows,
                     .cache = cache.index_keys(),
                     .cache_fp8 = cache.index_codes(),
                     .cache_scales = cache.index_scales(),
                     .keys = a.index_keys.data()});
  index_query(stream, {.tokens = rows.tokens,
                       .heads = shape().index_heads,
                       .dims = shape().index_dims,
                       .q = a.index_q.data(),
                       .raw_weights = a.index_raw_weights.data(),
                       .weight_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape().index_dims)) /
                                                          std::sqrt(static_cast<double>(shape().index_heads))),
                       .positions = rows.positions,
                       .rope = settings.index_rope,
                       .fp8 = settings.index_fp8,
                       .queries = a.index_queries.data(),
                       .weights = a.index_weights.data(),
                       .head_weights = a.index_head_weights.data()});
}

void Run::choose_keys() const {
  const bool all_selected = rows.max_keys <= shape().top_k;
  for (int first = 0; first < rows.tokens; first += a.score_rows) {
    const int count = std::min(a.score_rows, rows.tokens - first);
    if (!all_selected || demands.scores) {
      part("index_scores");
      index_scores(stream, {.tokens = count,
                            .heads = shape().index_heads,
                            .dims = shape().index_dims,
                            .max_keys = rows.max_keys,
                            .queries = a.index_queries.data() + static_cast<std::int64_t>(first) * shape().index_heads *
                                                                    index_stride(shape().index_dims),
                            .head_weights = a.index_head_weights.data() +
                                            static_cast<std::int64_t>(first) * row_stride(shape().index_heads),
                            .key_bases = rows.key_bases + first,
                            .key_counts = rows.key_counts + first,
                            .cache = cache.index_keys(),
                            .cache_fp8 = cache.index_codes(),
                            .cache_scales = cache.index_scales(),
                            .write_masked = static_cast<bool>(demands.scores),
                            .scores = a.scores.data(),
                            .score_stride = rows.max_keys});
    }
    if (demands.scores) demands.scores(first, count, a.scores.data());
    part("top_k");
    top_k(stream, {.rows = count,
                   .k = shape().top_k,
                   .max_keys = rows.max_keys,
                   .scores = a.scores.data(),
                   .score_stride = rows.max_keys,
                   .key_counts = rows.key_counts + first,
                   .indices = a.top_k.data() + static_cast<std::int64_t>(first) * shape().top_k});
  }
  if (rows.forced_keys != nullptr) {
    copy_on_device(stream, a.top_k.data(), rows.forced_keys,
                   static_cast<std::size_t>(rows.tokens) * shape().top_k * sizeof(std::int32_t));
  }
}

void Run::attention() const {
  const int width = shape().heads * shape().value;
  part("sparse_attention");
  sparse_attention(stream, {.tokens = rows.tokens,
                            .heads = shape().heads,
                            .kv_rank = shape().kv_rank,
                            .rope = shape().rope,
                            .query = a.query.data(),
                            .cache = cache.latents(),
                            .key_bases = rows.key_bases,
                            .key_counts = rows.key_counts,
                            .indices = shape().sparse() ? a.top_k.data() : nullptr,
                            .k = shape().top_k,
                            .max_keys = rows.max_keys,
                            .scale = settings.attention_scale,
                            .sink = weights.sink.data(),
                            .splits = a.splits,
                            .partial = a.partial.data(),
                            .partial_sums = a.partial_sums.data(),
                            .out = a.attention_latent.data()});
  part("expand_value");
  multiply(a.attention_latent.data(), shape().heads * layout().latent,
           {{.weight = weights.expand_value.view,
             .matrices = shape().heads,
             .x_step = layout().latent,
             .y = a.attn_out.data(),
             .y_stride = row_stride(width),
             .y_step = shape().value}});
  if (settings.gated) {
    part("output_gate");
    output_gate(stream, {.tokens = rows.tokens,
                         .heads = shape().heads,
                         .value_dims = shape().value,
                         .headwise = settings.headwise_gate,
                         .attention = a.attn_out.data(),
                         .gate = a.gate.data(),
                         .gated = a.gated.data()});
  }
  part("o_proj");
  multiply(settings.gated ? a.gated.data() : a.attn_out.data(), row_stride(width),
           {segment(weights.o_proj, a.o_proj.data())});
  part("add, post_attention_layernorm");
  add_rms_norm(stream, {.rows = rows.tokens,
                        .width = shape().hidden,
                        .x = a.o_proj.data(),
                        .residual = a.eh_proj.data(),
                        .weight = weights.post_attention_layernorm.data(),
                        .eps = settings.eps,
                        .sum = a.residual1.data(),
                        .y = a.post_attention_layernorm.data()});
}

void Run::route() const {
  part("router");
  multiply_wide(a.post_attention_layernorm.data(), *weights.router, a.router_logits.data());
  router(stream, {.tokens = rows.tokens,
                  .experts = shape().experts,
                  .top_k = shape().used_experts,
                  .groups = settings.expert_groups,
                  .top_groups = settings.used_groups,
                  .normalise = settings.normalise_experts,
                  .scale = settings.expert_scale,
                  .logits = a.router_logits.data(),
                  .bias = weights.expert_bias.data(),
                  .forced = rows.forced_experts,
                  .chosen = a.chosen_experts.data(),
                  .weights = a.expert_weights.data()});
}

void Run::mlp() const {
  const std::int64_t stride = row_stride(shape().hidden);
  if (weights.plain) {
    part("shared expert");
    experts_up(stream, {.tokens = rows.tokens,
                        .x = a.post_attention_layernorm.data(),
                        .gate = weights.plain->gate.view,
                        .up = weights.plain->up.view,
                        .act = a.plain_act.data()});
    experts_down(
        stream,
        {.tokens = rows.tokens, .act = a.plain_act.data(), .down = weights.plain->down.view, .y = a.plain_y.data()});
  }
  for (int first = 0; first < rows.tokens; first += a.expert_tokens) {
    const int count = std::min(a.expert_tokens, rows.tokens - first);
    const std::int64_t pair = static_cast<std::int64_t>(first) * shape().used_experts;
    if (weights.experts) {
      part("dispatch, experts_up");
      expert_dispatch(stream, {.tokens = count,
                               .top_k = shape().used_experts,
                               .experts = shape().experts,
                               .chosen = a.chosen_experts.data() + pair,
                               .lists = a.lists()});
      experts_up(stream, {.tokens = count,
                          .top_k = shape().used_experts,
                          .experts = shape().experts,
                          .lists = a.lists(),
                          .x = a.post_attention_layernorm.data() + first * stride,
                          .gate = weights.experts->gate.view,
                          .up = weights.experts->up.view,
                          .limit = settings.swiglu_limit,
                          .act = a.expert_act.data()});
      part("experts_down");
      experts_down(stream, {.tokens = count,
                            .top_k = shape().used_experts,
                            .experts = shape().experts,
                            .lists = a.lists(),
                            .act = a.expert_act.data(),
                            .down = weights.experts->down.view,
                            .y = a.expert_y.data()});
    }
    part("combine, final_layernorm");
    combine_experts(stream, {.tokens = count,
                             .top_k = weights.experts ? shape().used_experts : 0,
                             .width = shape().hidden,
                             .y = a.expert_y.data(),
                             .places = a.places.data(),
                             .weights = a.expert_weights.data() + pair,
                             .shared = weights.plain ? a.plain_y.data() + first * stride : nullptr,
                             .residual = a.residual1.data() + first * stride,
                             .norm = weights.final_layernorm.data(),
                             .eps = settings.eps,
                             .experts_out = demands.experts_out ? a.experts_out.data() + first * stride : nullptr,
                             .shared_out = demands.shared_out ? a.shared_out.data() + first * stride : nullptr,
                             .mlp_out = demands.mlp_out ? a.mlp_out.data() + first * stride : nullptr,
                             .residual2 = a.residual2.data() + first * stride,
                             .normed = a.final_layernorm.data() + first * stride});
  }
}

}  // namespace

LayerSettings layer_settings(const HeadConfig& c, const Conventions& conventions) {
  const double softmax_factor = conventions.yarn_softmax_scale ? yarn_softmax_factor(c.rope) : 1.0;
  const auto query_dims = static_cast<double>(c.qk_nope_head_dim + c.qk_rope_head_dim);
  return {.shape = shape_of(c),
          .gated = c.gate != GateKind::none,
          .headwise_gate = c.gate == GateKind::headwise,
          .eps = static_cast<float>(c.rms_norm_eps),
          .latent_eps = static_cast<float>(conventions.latent_norm_eps.value_or(c.rms_norm_eps)),
          .index_eps = static_cast<float>(conventions.k_norm_eps.value_or(c.rms_norm_eps)),
          .attention_scale = static_cast<float>(softmax_factor / std::sqrt(query_dims)),
          .swiglu_limit = static_cast<float>(c.swiglu_limit),
          .normalise_experts = c.norm_topk_prob,
          .expert_scale = static_cast<float>(c.routed_scaling_factor),
          .expert_groups = conventions.group_routing ? static_cast<int>(c.n_group) : 1,
          .used_groups = conventions.group_routing ? static_cast<int>(c.topk_group) : 1,
          .position_zero_mask = conventions.position_zero_mask,
          .index_fp8 = conventions.indexer_fp8,
          .rope = {},
          .index_rope = {}};
}

void run_layer(Stream stream, const LayerSettings& settings, const DeviceLayer& weights, const __nv_bfloat16* embedding,
               const LayerCache& cache, const StepRows& rows, const Activations& activations, GemmLibrary& library,
               const LayerDemands& demands) {
  if (rows.tokens == 0) return;
  const Run run{stream, settings, weights, embedding, cache, rows, activations, library, demands};
  run.input();
  run.projections();
  if (settings.shape.sparse()) {
    run.indexer();
    run.choose_keys();
  }
  run.attention();
  if (settings.shape.experts > 0) run.route();
  run.mlp();
  run.part("lm_head");
  run.multiply_wide(activations.final_layernorm.data(), weights.lm_head, activations.logits.data());
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
