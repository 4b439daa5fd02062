#include "harness/loading/meaning/scale_grid.h"

#include <fmt/format.h>

#include <numeric>

namespace mtpcheck {
namespace {

constexpr BlockSize kUsualBlock{128, 128};
constexpr std::size_t kMxGroup = 32;

std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// uint8 holds exponents. A scale of any other dtype is the number that it is.
std::optional<Dtype> read_as(Dtype stored) {
  switch (stored) {
    case Dtype::f32:
    case Dtype::bf16:
    case Dtype::f16:
    case Dtype::f8_e8m0:
      return stored;
    case Dtype::u8:
      return Dtype::f8_e8m0;
    default:
      return std::nullopt;
  }
}

bool is_packed_fp4(Dtype weight) { return weight == Dtype::u8 || weight == Dtype::f4_e2m1; }

// The scale of one slab, without the expert dimension.
struct Slab {
  Shape shape;
  std::size_t first_cell = 0;
};

std::optional<Slab> slab_of(const WeightPlace& place, const Shape& scale) {
  if (!place.expert || elements_of(scale) == 1) return Slab{scale, 0};
  if (scale.empty() || scale.front() != place.experts) return std::nullopt;
  Slab slab{{scale.begin() + 1, scale.end()}, 0};
  slab.first_cell = *place.expert * elements_of(slab.shape);
  return slab;
}

// [r], [r, 1] → r
std::optional<std::size_t> column_of(const Shape& shape) {
  if (shape.size() == 1 || (shape.size() == 2 && shape[1] == 1)) return shape[0];
  return std::nullopt;
}

std::optional<ScaleGrid> block_grid(const WeightPlace& place, const Slab& slab, const BlockSize& block) {
  if (slab.shape.size() != 2 || slab.shape[1] != ceil_div(place.cols, block[1])) return std::nullopt;
  std::size_t before = 0;
  std::size_t all = 0;
  for (std::size_t part = 0; part < place.part_rows.size(); ++part) {
    const std::size_t rows = ceil_div(place.part_rows[part], block[0]);
    if (part < place.part) before += rows;
    all += rows;
  }
  ScaleGrid grid;
  grid.block_rows = block[0];
  grid.block_cols = block[1];
  grid.stride = slab.shape[1];
  if (slab.shape[0] == all) {
    grid.first_cell = slab.first_cell + before * grid.stride;
  } else if (slab.shape[0] == ceil_div(place.total_rows(), block[0])) {
    grid.first_cell = slab.first_cell;
    grid.first_row = place.first_row();
  } else {
    return std::nullopt;
  }
  return grid;
}

std::optional<GridDecision> fit(const WeightPlace& place, const Slab& slab, const std::optional<BlockSize>& hint) {
  const std::size_t cells = elements_of(slab.shape);
  ScaleGrid grid{Dtype::f32, slab.first_cell, 0, place.total_rows(), place.cols, 1};
  if (cells == 1) return GridDecision{QuantLayout::per_tensor, grid};
  if (hint) {
    if (const auto blocks = block_grid(place, slab, *hint)) return GridDecision{QuantLayout::block, *blocks};
  }
  const std::size_t parts = place.part_rows.size();
  if (parts > 1 && column_of(slab.shape) == parts && parts != place.total_rows()) {
    grid.first_cell += place.part;
    return GridDecision{QuantLayout::per_tensor, grid};
  }
  grid.first_row = place.first_row();
  grid.block_rows = 1;
  if (column_of(slab.shape) == place.total_rows()) return GridDecision{QuantLayout::per_channel, grid};
  if (slab.shape.size() == 2 && slab.shape[0] == place.total_rows() &&
      slab.shape[1] == ceil_div(place.cols, kMxGroup)) {
    grid.block_cols = kMxGroup;
    grid.stride = slab.shape[1];
    return GridDecision{QuantLayout::mx, grid};
  }
  if (const auto blocks = block_grid(place, slab, kUsualBlock)) return GridDecision{QuantLayout::block, *blocks};
  return std::nullopt;
}

// The cells that a slab's scale has in a layout: over each fused projection, or over all rows.
std::array<std::size_t, 2> cells_of(QuantLayout layout, const WeightPlace& place, const BlockSize& block) {
  const std::size_t rows = place.total_rows();
  switch (layout) {
    case QuantLayout::block: {
      const std::size_t across = ceil_div(place.cols, block[1]);
      std::size_t each = 0;
      for (const std::size_t part : place.part_rows) each += ceil_div(part, block[0]);
      return {each * across, ceil_div(rows, block[0]) * across};
    }
    case QuantLayout::mx:
      return {rows * ceil_div(place.cols, kMxGroup), rows * ceil_div(place.cols, kMxGroup)};
    case QuantLayout::per_channel:
      return {rows, rows};
    default:
      return {place.part_rows.size(), 1};
  }
}

std::string misfit(const WeightPlace& place, const TensorView& scale) {
  const std::size_t rows = place.total_rows();
  std::string text =
      fmt::format("a scale of {} fits no layout of a weight of [{}, {}]", to_string(scale.shape), rows, place.cols);
  if (scale.shape.size() >= 2) {
    const std::size_t height = scale.shape[scale.shape.size() - 2];
    const std::size_t width = scale.shape.back();
    const bool block = height == ceil_div(place.cols, 128) && width == ceil_div(rows, 128);
    if (block || (width == rows && (height == ceil_div(place.cols, kMxGroup) || height == 1))) {
      text += "; it would fit transposed";
    } else if (height == rows && width > 1 && place.cols % width == 0) {
      text += fmt::format("; it has one scale for {} columns, where MX has one for {}", place.cols / width, kMxGroup);
    }
  }
  return text;
}

}  // namespace

std::string_view to_string(QuantLayout layout) {
  switch (layout) {
    case QuantLayout::none:
      return "unquantised";
    case QuantLayout::block:
      return "block";
    case QuantLayout::mx:
      return "MX (1x32)";
    case QuantLayout::per_channel:
      return "per channel";
    case QuantLayout::per_tensor:
      return "per tensor";
    case QuantLayout::nvfp4:
      return "NVFP4";
    case QuantLayout::mxfp4:
      break;
  }
  return "MXFP4";
}

std::size_t WeightPlace::total_rows() const {
  return std::accumulate(part_rows.begin(), part_rows.end(), std::size_t{0});
}

std::size_t WeightPlace::first_row() const {
  return std::accumulate(part_rows.begin(), part_rows.begin() + static_cast<std::ptrdiff_t>(part), std::size_t{0});
}

std::variant<GridDecision, std::string> decide_grid(const WeightPlace& place, Dtype weight, const TensorView& scale,
                                                    const DeclaredQuantisation& declared) {
  if (is_packed_fp4(weight)) {
    if (scale.dtype == Dtype::f8_e4m3) return GridDecision{QuantLayout::nvfp4, {}};
    return GridDecision{QuantLayout::mxfp4, {}};
  }
  const auto stored = read_as(scale.dtype);
  if (!stored) {
    const bool packed = scale.dtype == Dtype::i32 || scale.dtype == Dtype::u32;
    return fmt::format("a scale of {}{}", torch_name(scale.dtype),
                       packed ? ", which is how exponents are packed four to a word: unpack them" : "");
  }
  const auto slab = slab_of(place, scale.shape);
  if (!slab) return misfit(place, scale);
  auto decision = fit(place, *slab, declared.block);
  if (!decision) return misfit(place, scale);
  if (declared.layout) {
    const auto [each, all] = cells_of(*declared.layout, place, declared.block.value_or(kUsualBlock));
    const std::size_t cells = elements_of(slab->shape);
    if (cells != each && cells != all) {
      return fmt::format("a scale of {}, {} by its shape, where the config says {} and that has {} cells",
                         to_string(scale.shape), to_string(decision->layout), to_string(*declared.layout), each);
    }
  }
  decision->grid.read_as = *stored;
  return *decision;
}

}  // namespace mtpcheck
