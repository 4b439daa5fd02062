#include "harness/loading/sglang/head/layers.h"

#include <fmt/format.h>

#include <utility>

#include "harness/loading/plan/layer_parameters.h"
#include "harness/loading/symbolic/refused.h"

namespace mtpcheck::sglang {
namespace {

const char* class_of(Loader loader) {
  switch (loader) {
    case Loader::column:
      return "ColumnParallelLinear";
    case Loader::merged:
      return "MergedColumnParallelLinear";
    case Loader::row:
      return "RowParallelLinear";
    default:
      return "ReplicatedLinear";
  }
}

// Blocks that ranks would share, or that straddle gate and up, cannot be cut.
void check_blocks(const Linear& linear, const LinearShape& shape, const Scheme& scheme, std::size_t ranks) {
  if (ranks > 1 && linear.loader == Loader::row && shape.cols % scheme.block_cols != 0) {
    throw Refused{
        linear.cols.key, "ValueError",
        fmt::format("Weight input_size_per_partition = {} is not divisible by weight quantization block_k = {}.",
                    shape.cols, scheme.block_cols)};
  }
  const bool cut_rows = ranks > 1 && linear.loader != Loader::row;
  if (!cut_rows && linear.loader != Loader::merged) return;
  for (const std::size_t rows : shape.part_rows) {
    if (rows % scheme.block_rows == 0) continue;
    throw Refused{linear.part_rows.front().key, "ValueError",
                  fmt::format("Weight output_partition_size = {} is not divisible by weight quantization block_n = {}.",
                              rows, scheme.block_rows)};
  }
}

Sharding sharding_of(const Linear& linear, Cut cut, std::size_t ranks) {
  if (ranks == 1 || cut == Cut::per_tensor) return Sharding::replicated;
  if (linear.loader == Loader::row) return cut == Cut::channel ? Sharding::replicated : Sharding::cols;
  return Sharding::rows;
}

// One linear layer on one rank, parameter by parameter.
class LinearBuilder {
 public:
  LinearBuilder(const Linear& linear, const LayerContext& context, std::vector<EngineParameter>& parameters)
      : linear_(linear), context_(context), parameters_(parameters) {
    const bool cut = linear.loader != Loader::replicated;
    const bool by_rows = linear.loader != Loader::row;
    ranks_ = cut ? context.tp_size : 1;
    shape_ = {.name = linear.name, .parts = linear.parts, .part_rows = {}, .cols = 0, .layer = 0};
    for (const Size& rows : linear.part_rows) {
      shape_.part_rows.push_back(by_rows ? share_of(rows, ranks_) : rows.value);
    }
    shape_.cols = by_rows ? linear.cols.value : share_of(linear.cols, ranks_);
    scheme_ = scheme_of(context.quantisation, "." + shape_.name, class_of(linear.loader));
  }

  void build() {
    switch (scheme_.kind) {
      case Scheme::Kind::none:
        weight(context_.dtype, shape_.cols);
        return;
      case Scheme::Kind::fp8_block:
        // Block scales have the name of their format: compressed-tensors' lacks the _inv.
        blocks(scheme_.method == Scheme::Method::fp8 ? "weight_scale_inv" : "weight_scale", Dtype::f32,
               Initial::float_min);
        return;
      case Scheme::Kind::mxfp8:
        blocks("weight_scale_inv", Dtype::u8, Initial::zero);
        return;
      case Scheme::Kind::fp8_channel:
        weight(Dtype::f8_e4m3, shape_.cols);
        put(linear_scale_grid(shape_, "weight_scale", Dtype::f32, {1, shape_.cols}, Initial::float_min), Cut::channel);
        return;
      case Scheme::Kind::fp8_tensor:
        weight(Dtype::f8_e4m3, shape_.cols);
        number("weight_scale", Role::scale, Initial::float_min);
        if (scheme_.static_activation) number("input_scale", Role::input_scale, Initial::float_min);
        return;
      case Scheme::Kind::nvfp4:
        nvfp4();
        return;
    }
  }

 private:
  void put(Parameter parameter, Cut cut) {
    EngineParameter& entry = parameters_.emplace_back();
    entry.parameter = std::move(parameter);
    entry.parameter.sharding = sharding_of(linear_, cut, ranks_);
    entry.loader = linear_.loader;
    entry.cut = cut;
    entry.quantised = scheme_.kind != Scheme::Kind::none;
    entry.block_rows = cut == Cut::block ? scheme_.block_rows : 1;
    entry.tp_size = ranks_;
    entry.tp_rank = ranks_ == 1 ? 0 : context_.tp_rank;
    for (const Size& rows : linear_.part_rows) entry.output_sizes.push_back(rows.value);
  }

  void weight(Dtype dtype, std::size_t cols) { put(linear_weight(shape_, dtype, cols), Cut::weight); }

  void number(const char* name, Role role, Initial initial) {
    put(linear_scalars(shape_, name, role, initial, !linear_.one_for_sglang), Cut::per_tensor);
  }

  void blocks(const char* name, Dtype dtype, Initial initial) {
    check_blocks(linear_, shape_, scheme_, ranks_);
    weight(Dtype::f8_e4m3, shape_.cols);
    put(linear_scale_grid(shape_, name, dtype, {scheme_.block_rows, scheme_.block_cols}, initial), Cut::block);
  }

  void nvfp4() {
    if (shape_.cols % 16 != 0) {
      throw Refused{linear_.cols.key, "ValueError", "Unsupported model when in features size is not multiple of 16"};
    }
    weight(Dtype::u8, shape_.cols / 2);
    number("weight_scale_2", Role::global_scale, Initial::uninitialised);
    LinearShape whole_groups = shape_;
    whole_groups.cols = shape_.cols / scheme_.group * scheme_.group;  // rounded down, unlike a block grid
    put(linear_scale_grid(whole_groups, "weight_scale", Dtype::f8_e4m3, {1, scheme_.group}, Initial::uninitialised),
        Cut::weight);
    const bool unused = scheme_.activation_scale_unused;
    number("input_scale", Role::input_scale, unused ? Initial::uninitialised : Initial::one);
  }

  const Linear& linear_;
  const LayerContext& context_;
  std::vector<EngineParameter>& parameters_;
  std::size_t ranks_ = 1;
  LinearShape shape_;
  Scheme scheme_;
};

// The gate and up projections of this rank's experts, or their down projections.
class ExpertBuilder {
 public:
  ExpertBuilder(const Experts& experts, const Scheme& scheme, std::size_t tp_size, const LayerContext& context,
                std::vector<EngineParameter>& parameters)
      : experts_(experts), scheme_(scheme), tp_size_(tp_size), context_(context), parameters_(parameters) {}

  void build(const ExpertShape& half) {
    switch (scheme_.kind) {
      case Scheme::Kind::none:
        put(expert_weight(half, context_.dtype, half.cols));
        return;
      case Scheme::Kind::fp8_block:
        put(expert_weight(half, Dtype::f8_e4m3, half.cols));
        grid(half, scheme_.method == Scheme::Method::fp8 ? "weight_scale_inv" : "weight_scale", Dtype::f32,
             Initial::one);
        return;
      case Scheme::Kind::mxfp8:
        put(expert_weight(half, Dtype::f8_e4m3, half.cols));
        grid(half, "weight_scale_inv", Dtype::u8, Initial::zero);
        return;
      case Scheme::Kind::fp8_channel:
        put(expert_weight(half, Dtype::f8_e4m3, half.cols));
        put(expert_scale_grid(half, "weight_scale", Dtype::f32, {1, half.cols}, Initial::one));
        return;
      case Scheme::Kind::fp8_tensor: {
        const bool modelopt = scheme_.method == Scheme::Method::modelopt;
        put(expert_weight(half, Dtype::f8_e4m3, half.cols));
        put(expert_scalars(half, "weight_scale", Role::scale, modelopt ? Initial::float_min : Initial::one, true));
        if (!scheme_.static_activation) return;
        put(expert_scalars(half, "input_scale", Role::input_scale, Initial::one, false));
        return;
      }
      case Scheme::Kind::nvfp4:
        nvfp4(half);
        return;
    }
  }

 private:
  EngineParameter& put(Parameter parameter) {
    EngineParameter& entry = parameters_.emplace_back();
    const bool down = parameter.parts.empty() && parameter.name.find(".w2_") != std::string::npos;
    entry.parameter = std::move(parameter);
    entry.loader = Loader::experts;
    entry.scheme = scheme_.kind;
    entry.tp_size = tp_size_;
    entry.tp_rank = tp_size_ == 1 ? 0 : context_.tp_rank;
    if (experts_.local != experts_.count) {
      entry.parameter.sharding = Sharding::experts;
    } else if (tp_size_ > 1) {
      entry.parameter.sharding = down ? Sharding::cols : Sharding::rows;
    }
    return entry;
  }

  void grid(const ExpertShape& half, const char* name, Dtype dtype, Initial initial) {
    put(expert_scale_grid(half, name, dtype, {scheme_.block_rows, scheme_.block_cols}, initial));
  }

  // Beside the scales of its groups it has a second copy of them in the order of its kernels, made after the load; and
  // its input scales are those of all experts, on every rank.
  void nvfp4(const ExpertShape& half) {
    put(expert_weight(half, Dtype::u8, half.cols / 2));
    ExpertShape whole_groups = half;
    whole_groups.cols = half.cols / scheme_.group * scheme_.group;
    const Parameter scales =
        expert_scale_grid(whole_groups, "weight_scale", Dtype::f8_e4m3, {1, scheme_.group}, Initial::uninitialised);
    put(scales);
    ExpertShape padded = half;
    padded.rows = blocks_of(half.rows, 128) * 128;
    padded.cols = blocks_of(scales.extents.cols, 4) * 4;
    Parameter swizzled = expert_weight(padded, Dtype::f8_e4m3, padded.cols);
    swizzled.name = half.stem + "_blockscale_swizzled";
    swizzled.role = Role::scale;
    swizzled.parts.clear();
    swizzled.origin = Origin::engine;
    put(std::move(swizzled));
    put(expert_scalars(half, "weight_scale_2", Role::global_scale, Initial::uninitialised, true));
    ExpertShape everywhere = half;
    everywhere.experts.clear();
    for (std::uint32_t expert = 0; expert < experts_.count; ++expert) everywhere.experts.push_back(expert);
    EngineParameter& input = put(expert_scalars(everywhere, "input_scale", Role::input_scale, Initial::one, true));
    input.parameter.sharding = Sharding::replicated;
    input.all_experts = true;
  }

  const Experts& experts_;
  const Scheme& scheme_;
  std::size_t tp_size_;
  const LayerContext& context_;
  std::vector<EngineParameter>& parameters_;
};

void check_expert_blocks(const Scheme& scheme, std::size_t width, std::size_t tp_size) {
  if (scheme.kind != Scheme::Kind::fp8_block && scheme.kind != Scheme::Kind::mxfp8) return;
  if (width % scheme.block_rows != 0) {
    throw Refused{"moe_intermediate_size", "ValueError",
                  fmt::format("The output_size of gate's and up's weight = {} is not divisible by weight quantization "
                              "block_n = {}.",
                              width, scheme.block_rows)};
  }
  if (tp_size > 1 && width % scheme.block_cols != 0) {
    throw Refused{"moe_intermediate_size", "ValueError",
                  fmt::format("The input_size of down's weight = {} is not divisible by weight quantization block_k = "
                              "{}.",
                              width, scheme.block_cols)};
  }
}

}  // namespace

std::size_t share_of(const Size& size, std::size_t ranks) {
  if (size.value % ranks != 0) {
    throw Refused{size.key, "AssertionError", fmt::format("{} is not divisible by {}", size.value, ranks)};
  }
  return size.value / ranks;
}

void add_linear(const Linear& linear, const LayerContext& context, std::vector<EngineParameter>& parameters) {
  LinearBuilder(linear, context, parameters).build();
}

void add_experts(const Experts& experts, const LayerContext& context, std::vector<EngineParameter>& parameters) {
  const std::size_t tp_size = experts.whole ? 1 : context.tp_size;
  const std::size_t width = share_of(experts.intermediate, tp_size);
  const std::string name = "model.decoder.mlp.experts";
  const Scheme scheme = scheme_of(context.quantisation, "." + name, "FusedMoE");
  check_expert_blocks(scheme, width, tp_size);
  std::vector<std::uint32_t> local;
  for (std::size_t i = 0; i < experts.local; ++i) local.push_back(static_cast<std::uint32_t>(experts.first + i));
  ExpertBuilder builder(experts, scheme, tp_size, context, parameters);
  builder.build({.stem = name + ".w13",
                 .experts = local,
                 .parts = {"gate_proj", "up_proj"},
                 .rows = 2 * width,
                 .cols = experts.hidden,
                 .layer = 0});
  builder.build(
      {.stem = name + ".w2", .experts = local, .parts = {}, .rows = experts.hidden, .cols = width, .layer = 0});
}

}  // namespace mtpcheck::sglang
