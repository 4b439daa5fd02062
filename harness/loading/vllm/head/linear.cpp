#include <fmt/format.h>

#include <utility>

#include "harness/loading/plan/layer_parameters.h"
#include "harness/loading/vllm/head/parameters.h"

namespace mtpcheck::vllm {
namespace {

// The parameters of one linear layer on one rank, and the group that shares it.
struct Geometry {
  LinearShape shape;
  std::size_t tp_size = 1;
  std::size_t tp_rank = 0;
};

Geometry geometry_of(const Linear& linear, const LayerContext& context) {
  Geometry geometry;
  const bool cut = !linear.replicated && linear.loader != Loader::replicated;
  geometry.tp_size = cut ? context.tp_size : 1;
  geometry.tp_rank = cut ? context.tp_rank : 0;
  const bool by_rows = linear.loader != Loader::row;
  geometry.shape = {.name = linear.name, .parts = {}, .part_rows = {}, .cols = 0, .layer = context.layer};
  for (const Projection& projection : linear.projections) {
    geometry.shape.parts.push_back(projection.name);
    geometry.shape.part_rows.push_back(by_rows ? share(projection.rows, geometry.tp_size) : projection.rows.value);
  }
  geometry.shape.cols = by_rows ? linear.cols.value : share(linear.cols, geometry.tp_size);
  return geometry;
}

Sharding sharding_of(const Linear& linear, const Geometry& geometry, Cut cut) {
  if (geometry.tp_size == 1 || cut == Cut::per_tensor) return Sharding::replicated;
  if (linear.loader == Loader::row) return cut == Cut::channel ? Sharding::replicated : Sharding::cols;
  return Sharding::rows;
}

// FP8 blocks that ranks would share, or that straddle fused projections, cannot be cut. With the FP8 format a merged
// layer of uneven parts is let through.
void check_blocks(const Linear& linear, const Geometry& geometry, const Scheme& scheme) {
  const std::string key = "quantization_config.weight_block_size";
  const bool merged = linear.projections.size() > 1;
  if (merged && scheme.method == Scheme::Method::fp8) {
    for (const std::size_t rows : geometry.shape.part_rows) {
      if (rows % scheme.block_rows != 0) return;
    }
  }
  const bool cut = geometry.tp_size > 1;
  if (cut && linear.loader == Loader::row && geometry.shape.cols % scheme.block_cols != 0) {
    throw Refused{
        linear.cols.key, "ValueError",
        fmt::format("Weight input_size_per_partition = {} is not divisible by weight quantization block_k = {}.",
                    geometry.shape.cols, scheme.block_cols)};
  }
  const bool cut_rows = cut && linear.loader != Loader::row;
  if (!cut_rows && !merged) return;
  const std::size_t checked = cut_rows ? geometry.shape.part_rows.size() : geometry.shape.part_rows.size() - 1;
  for (std::size_t part = 0; part < checked; ++part) {
    if (geometry.shape.part_rows[part] % scheme.block_rows != 0) {
      throw Refused{
          linear.projections[part].rows.key, "ValueError",
          fmt::format("Weight output_partition_size = {} is not divisible by weight quantization block_n = {}.",
                      geometry.shape.part_rows[part], scheme.block_rows)};
    }
  }
}

void check_columns(const Linear& linear, const Geometry& geometry, std::size_t multiple, const char* format) {
  if (geometry.shape.cols % multiple != 0) {
    throw Refused{linear.cols.key, "ValueError",
                  fmt::format("{} requires input size divisible by {}, got {}", format, multiple, geometry.shape.cols)};
  }
}

// Collects the parameters of one layer.
class LinearBuilder {
 public:
  LinearBuilder(const Linear& linear, const Geometry& geometry, std::vector<EngineParameter>& parameters)
      : linear_(linear), geometry_(geometry), parameters_(parameters) {}

  void weight(Dtype dtype, std::size_t cols) { add(linear_weight(geometry_.shape, dtype, cols), Cut::weight); }

  // A grid of scales: one a block of the weight.
  EngineParameter& grid(const char* name, Cut cut, Dtype dtype, std::size_t block_rows, std::size_t block_cols,
                        Initial initial) {
    const ScaleBlock block{block_rows, cut == Cut::channel ? geometry_.shape.cols : block_cols};
    EngineParameter& entry = add(linear_scale_grid(geometry_.shape, name, dtype, block, initial), cut);
    entry.scale_block_rows = block_rows;
    return entry;
  }

  // One number a projection.
  void per_tensor(const char* name, Role role, Initial initial) {
    add(linear_scalars(geometry_.shape, name, role, initial, true), Cut::per_tensor);
  }

 private:
  EngineParameter& add(Parameter parameter, Cut cut) {
    EngineParameter entry;
    entry.parameter = std::move(parameter);
    entry.parameter.sharding = sharding_of(linear_, geometry_, cut);
    entry.loader = linear_.loader;
    entry.cut = cut;
    entry.tp_size = geometry_.tp_size;
    entry.tp_rank = geometry_.tp_rank;
    entry.exempt_from_strict_check = true;
    for (const Projection& projection : linear_.projections) entry.output_sizes.push_back(projection.rows.value);
    parameters_.push_back(std::move(entry));
    return parameters_.back();
  }

  const Linear& linear_;
  const Geometry& geometry_;
  std::vector<EngineParameter>& parameters_;
};

void add_fp8_block(const Linear& linear, const Scheme& scheme, const Geometry& geometry, LinearBuilder& build) {
  if (scheme.modelopt_layout) {
    check_columns(linear, geometry, 128, "FP8_PB_WO");
    build.weight(Dtype::f8_e4m3, geometry.shape.cols);
    EngineParameter& scale =
        build.grid("weight_scale", Cut::block, Dtype::f32, scheme.block_rows, scheme.block_cols, Initial::float_min);
    // The same grid, with a dimension of 1 after each of its own.
    scale.parameter.shape = {scale.parameter.extents.rows, 1, scale.parameter.extents.cols, 1};
    scale.col_dim = 2;
    return;
  }
  check_blocks(linear, geometry, scheme);
  build.weight(Dtype::f8_e4m3, geometry.shape.cols);
  const char* name = scheme.method == Scheme::Method::fp8 ? "weight_scale_inv" : "weight_scale";
  // Only float32 scales get the placeholder; E8M0 ones stay as the memory was.
  const Initial initial = scheme.scale_dtype == Dtype::f32 ? Initial::float_min : Initial::uninitialised;
  build.grid(name, Cut::block, scheme.scale_dtype, scheme.block_rows, scheme.block_cols, initial);
}

void add_nvfp4(const Linear& linear, const Scheme& scheme, const Geometry& geometry, LinearBuilder& build) {
  check_columns(linear, geometry, 16, "NVFP4");
  build.weight(Dtype::u8, geometry.shape.cols / 2);
  build.per_tensor("weight_scale_2", Role::global_scale, Initial::uninitialised);
  build.grid("weight_scale", Cut::weight, Dtype::f8_e4m3, 1, scheme.group, Initial::uninitialised);
  build.per_tensor("input_scale", Role::input_scale, Initial::uninitialised);
}

}  // namespace

std::string module_class(const Linear& linear) {
  switch (linear.loader) {
    case Loader::column:
      return "ColumnParallelLinear";
    case Loader::row:
      return "RowParallelLinear";
    case Loader::merged:
      return "MergedColumnParallelLinear";
    default:
      return "ReplicatedLinear";
  }
}

std::size_t share(const Size& size, std::size_t ranks) {
  if (size.value % ranks != 0) {
    throw Refused{size.key, "AssertionError", fmt::format("{} is not divisible by {}", size.value, ranks)};
  }
  return size.value / ranks;
}

void add_linear(const Linear& linear, const Scheme& scheme, const LayerContext& context,
                std::vector<EngineParameter>& parameters) {
  const Geometry geometry = geometry_of(linear, context);
  LinearBuilder build(linear, geometry, parameters);
  switch (scheme.kind) {
    case Scheme::Kind::none:
      build.weight(context.dtype, geometry.shape.cols);
      return;
    case Scheme::Kind::fp8_block:
      add_fp8_block(linear, scheme, geometry, build);
      return;
    case Scheme::Kind::fp8_channel: {
      build.weight(Dtype::f8_e4m3, geometry.shape.cols);
      EngineParameter& scale = build.grid("weight_scale", Cut::channel, Dtype::f32, 1, 1, Initial::float_min);
      if (scheme.modelopt_layout) scale.parameter.shape = {scale.parameter.extents.rows};
      return;
    }
    case Scheme::Kind::fp8_tensor:
      build.weight(Dtype::f8_e4m3, geometry.shape.cols);
      build.per_tensor("weight_scale", Role::scale, Initial::float_min);
      if (scheme.static_activation) build.per_tensor("input_scale", Role::input_scale, Initial::float_min);
      return;
    case Scheme::Kind::mxfp8:
      check_columns(linear, geometry, 32, "MXFP8");
      build.weight(Dtype::f8_e4m3, geometry.shape.cols);
      build.grid("weight_scale", Cut::weight, Dtype::u8, 1, 32, Initial::uninitialised);
      return;
    case Scheme::Kind::nvfp4:
      add_nvfp4(linear, scheme, geometry, build);
      return;
  }
}

}  // namespace mtpcheck::vllm
