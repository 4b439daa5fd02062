#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "harness/loading/plan/layer_parameters.h"
#include "harness/loading/vllm/head/parameters.h"

namespace mtpcheck::vllm {
namespace {

// Whether a parameter belongs to the gate and up projections or to the down projection.
struct Half {
  const char* stem;   ///< "w13", "w2"
  std::size_t rows;   ///< of the weight
  std::size_t cols;   ///< of the weight
  std::size_t parts;  ///< projections fused in the rows
};

// The grid of block scales on this rank. Where a rank's share is no whole number of blocks, vLLM refines the grid to
// the largest block that divides everything, and repeats the file's scales.
struct Grid {
  std::size_t rows = 128;
  std::size_t cols = 128;
  std::size_t refine_rows = 1;
  std::size_t refine_cols = 1;
};

Grid block_grid(const Experts& experts, const Scheme& scheme, std::size_t share_of_rank, std::size_t global_tp_size) {
  Grid grid{scheme.block_rows, scheme.block_cols, 1, 1};
  const bool whole_rows = share_of_rank % grid.rows == 0;
  const bool whole_cols = share_of_rank % grid.cols == 0;
  // Under expert parallelism nothing is cut, and yet the final check goes by the size of the tensor-parallel group.
  if (whole_rows && (global_tp_size == 1 || whole_cols)) return grid;
  const bool refinable = !whole_rows || experts.tp_size > 1;
  const std::size_t refined = std::gcd(std::gcd(grid.rows, grid.cols), std::gcd(share_of_rank, experts.hidden.value));
  if (scheme.method == Scheme::Method::fp8 && refinable && refined >= 32) {
    return {refined, refined, grid.rows / refined, grid.cols / refined};
  }
  throw Refused{
      experts.intermediate.key, "ValueError",
      fmt::format("the intermediate size of a rank's experts, {}, is not divisible by the weight quantization "
                  "block of {}",
                  share_of_rank, whole_rows ? grid.cols : grid.rows)};
}

class ExpertsBuilder {
 public:
  ExpertsBuilder(const Experts& experts, const LayerContext& context, ExpertMethod method,
                 std::vector<EngineParameter>& parameters)
      : experts_(experts), context_(context), method_(method), parameters_(parameters) {}

  void weight(const Half& half, Dtype dtype, std::size_t cols) {
    add(half, expert_weight(shape_of(half), dtype, cols), ExpertScale::none);
  }

  EngineParameter& grid(const Half& half, const char* name, ExpertScale kind, Dtype dtype, std::size_t block_rows,
                        std::size_t block_cols, Initial initial) {
    const ScaleBlock block{block_rows, kind == ExpertScale::channel ? half.cols : block_cols};
    return add(half, expert_scale_grid(shape_of(half), name, dtype, block, initial), kind);
  }

  // One number an expert, or one a projection of each.
  void scalar(const Half& half, const char* name, ExpertScale kind, Role role, Initial initial, bool each_part) {
    add(half, expert_scalars(shape_of(half), name, role, initial, each_part), kind);
  }

 private:
  ExpertShape shape_of(const Half& half) const {
    ExpertShape shape{.stem = fmt::format("{}.{}", experts_.name, half.stem),
                      .experts = experts_.local,
                      .parts = {},
                      .rows = half.rows,
                      .cols = half.cols,
                      .layer = context_.layer};
    if (half.parts > 1) shape.parts = {"gate_proj", "up_proj"};
    return shape;
  }

  EngineParameter& add(const Half& half, Parameter parameter, ExpertScale kind) {
    EngineParameter entry;
    entry.parameter = std::move(parameter);
    entry.parameter.sharding = sharding(half);
    entry.loader = Loader::experts;
    entry.method = method_;
    entry.scale = kind;
    entry.tp_size = experts_.tp_size;
    entry.tp_rank = experts_.tp_rank;
    entry.exempt_from_strict_check = true;
    parameters_.push_back(std::move(entry));
    return parameters_.back();
  }

  Sharding sharding(const Half& half) const {
    if (experts_.local.size() != experts_.count) return Sharding::experts;
    if (experts_.tp_size == 1) return Sharding::replicated;
    return half.parts == 2 ? Sharding::rows : Sharding::cols;
  }

  const Experts& experts_;
  const LayerContext& context_;
  ExpertMethod method_;
  std::vector<EngineParameter>& parameters_;
};

ExpertMethod method_of(const Scheme& scheme) {
  if (scheme.kind == Scheme::Kind::none) return ExpertMethod::none;
  if (scheme.method == Scheme::Method::fp8) return ExpertMethod::fp8;
  if (scheme.method == Scheme::Method::compressed_tensors) return ExpertMethod::compressed_fp8;
  if (scheme.kind == Scheme::Kind::mxfp8) return ExpertMethod::modelopt_mxfp8;
  if (scheme.kind == Scheme::Kind::nvfp4) return ExpertMethod::modelopt_nvfp4;
  return ExpertMethod::modelopt_fp8;  // one scale a tensor, whatever layout the linear layers have
}

void add_mxfp8(const Experts& experts, const Half& half, std::size_t share_of_rank, ExpertsBuilder& build) {
  for (const Size& size : {experts.hidden, Size{share_of_rank, experts.intermediate.key}}) {
    if (size.value % 32 != 0) {
      throw Refused{size.key, "ValueError",
                    fmt::format("MXFP8 MoE requires {} divisible by 32, got {}.", size.key, size.value)};
    }
  }
  build.weight(half, Dtype::f8_e4m3, half.cols);
  build.grid(half, "weight_scale", ExpertScale::block, Dtype::u8, 1, 32, Initial::uninitialised);
}

void add_nvfp4(const Half& half, const Scheme& scheme, ExpertsBuilder& build) {
  build.weight(half, Dtype::u8, half.cols / 2);
  // Rounded down, unlike a block grid.
  EngineParameter& scale =
      build.grid(half, "weight_scale", ExpertScale::none, Dtype::f8_e4m3, 1, scheme.group, Initial::uninitialised);
  scale.parameter.extents.cols = half.cols / scheme.group;
  scale.parameter.shape.back() = half.cols / scheme.group;
  build.scalar(half, "weight_scale_2", ExpertScale::none, Role::global_scale, Initial::uninitialised, true);
  build.scalar(half, "input_scale", ExpertScale::none, Role::input_scale, Initial::uninitialised, true);
}

void add_per_tensor(const Half& half, ExpertMethod method, bool static_activation, ExpertsBuilder& build) {
  const ExpertScale kind = method == ExpertMethod::modelopt_fp8 ? ExpertScale::none : ExpertScale::tensor;
  build.weight(half, Dtype::f8_e4m3, half.cols);
  build.scalar(half, "weight_scale", kind, Role::scale, Initial::one, true);
  if (static_activation) build.scalar(half, "input_scale", kind, Role::input_scale, Initial::one, false);
}

}  // namespace

void add_experts(const Experts& experts, const Scheme& scheme, const LayerContext& context,
                 std::vector<EngineParameter>& parameters) {
  const std::size_t width = share(experts.intermediate, experts.tp_size);
  const std::size_t hidden = experts.hidden.value;
  const ExpertMethod method = method_of(scheme);
  ExpertsBuilder build(experts, context, method, parameters);
  for (const Half& half : {Half{"w13", 2 * width, hidden, 2}, Half{"w2", hidden, width, 1}}) {
    switch (method) {
      case ExpertMethod::none:
        build.weight(half, context.dtype, half.cols);
        break;
      case ExpertMethod::modelopt_mxfp8:
        add_mxfp8(experts, half, width, build);
        break;
      case ExpertMethod::modelopt_nvfp4:
        add_nvfp4(half, scheme, build);
        break;
      case ExpertMethod::modelopt_fp8:
        add_per_tensor(half, method, true, build);
        break;
      case ExpertMethod::fp8:
      case ExpertMethod::compressed_fp8:
        if (scheme.kind == Scheme::Kind::fp8_block) {
          const Grid grid = block_grid(experts, scheme, width, context.tp_size);
          build.weight(half, Dtype::f8_e4m3, half.cols);
          EngineParameter& scale = build.grid(half, method == ExpertMethod::fp8 ? "weight_scale_inv" : "weight_scale",
                                              ExpertScale::block, Dtype::f32, grid.rows, grid.cols, Initial::one);
          scale.refine_rows = grid.refine_rows;
          scale.refine_cols = grid.refine_cols;
        } else if (scheme.kind == Scheme::Kind::fp8_channel) {
          build.weight(half, Dtype::f8_e4m3, half.cols);
          build.grid(half, "weight_scale", ExpertScale::channel, Dtype::f32, 1, 1, Initial::one);
        } else {
          add_per_tensor(half, method, scheme.static_activation, build);
        }
        break;
    }
  }
}

}  // namespace mtpcheck::vllm
