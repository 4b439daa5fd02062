#include "harness/loading/sglang/load/linear_loaders.h"

#include <fmt/format.h>

#include <numeric>

#include "harness/loading/plan/layer_parameters.h"
#include "harness/loading/symbolic/default_weight_loader.h"

namespace mtpcheck::sglang {
namespace {

// Widths of dtypes as SGLang ranks them; nullopt for what it does not rank, integers above all.
std::optional<int> rank_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f8_e4m3:
    case Dtype::f8_e5m2:
    case Dtype::f8_e8m0:
      return 0;
    case Dtype::f16:
    case Dtype::bf16:
      return 1;
    case Dtype::f32:
      return 2;
    case Dtype::f64:
      return 3;
    default:
      return std::nullopt;
  }
}

struct LinearCall {
  const EngineParameter& entry;
  TargetView data;
  std::uint32_t tensor;

  std::size_t size(std::size_t dim) const { return data.size(static_cast<std::ptrdiff_t>(dim)); }
  std::vector<Write> copy(const TargetView& to, const JoinedView& from) const { return from.copy_into(to, tensor); }
  std::vector<Write> copy_same_shape(const TargetView& to, const JoinedView& from) const {
    python_assert(to.shape() == from.shape(), fmt::format("param_data.shape={} loaded_weight.shape={}",
                                                          torch_size(to.shape()), torch_size(from.shape())));
    return copy(to, from);
  }
};

JoinedView with_a_dimension(const JoinedView& weight) { return weight.ndim() == 0 ? weight.reshape_1() : weight; }

std::vector<Write> replicated(const LinearCall& call, const JoinedView& weight) {
  const JoinedView loaded = with_a_dimension(weight);
  const Parameter& parameter = call.entry.parameter;
  python_assert(call.data.shape() == loaded.shape(),
                fmt::format("param.shape={} param.dtype=torch.{} loaded_weight.shape={} loaded_weight.dtype=torch.{}",
                            torch_size(parameter.shape), torch_name(parameter.dtype), torch_size(loaded.shape()),
                            torch_name(loaded.dtype())));
  return call.copy(call.data, loaded);
}

// copy_with_check: only a quantised column-parallel layer asks whether numbers would be lost.
std::vector<Write> copy_watching_dtypes(const LinearCall& call, const JoinedView& loaded) {
  python_assert(call.data.shape() == loaded.shape(),
                fmt::format("target.shape={}, loaded_weight.shape={}", torch_size(call.data.shape()),
                            torch_size(loaded.shape())));
  const Dtype target = call.entry.parameter.dtype;
  if (target != loaded.dtype()) {
    const auto to = rank_of(target);
    const auto from = rank_of(loaded.dtype());
    const std::string dtypes = fmt::format("target.dtype=torch.{}, loaded_weight.dtype=torch.{}", torch_name(target),
                                           torch_name(loaded.dtype()));
    if (!to || !from) throw Raised{"ValueError", "Unsupported copy between dtypes: " + dtypes};
    if (*to < *from) throw Raised{"ValueError", "Downcasting not allowed: " + dtypes};
  }
  return call.copy(call.data, loaded);
}

// The rank's rows; whatever lies beyond the group's shares is never looked at.
std::vector<Write> column(const LinearCall& call, const JoinedView& weight) {
  if (call.entry.cut == Cut::per_tensor) return call.copy_same_shape(call.data, with_a_dimension(weight));
  const JoinedView given = call.entry.quantised ? with_a_dimension(weight) : weight;
  const std::size_t rows = call.size(0);
  const JoinedView loaded = given.narrow(0, call.entry.tp_rank * rows, rows);
  if (call.entry.quantised) return copy_watching_dtypes(call, loaded);
  python_assert(call.data.shape() == loaded.shape(),
                fmt::format("param_data.shape={} != loaded_weight.shape={}", torch_size(call.data.shape()),
                            torch_size(loaded.shape())));
  return call.copy(call.data, loaded);
}

// The rank's columns: what a narrow tensor lacks is zeros, and what a wide one has more is cut off, without a word.
std::vector<Write> row(const LinearCall& call, const JoinedView& weight) {
  const JoinedView given = call.entry.quantised ? with_a_dimension(weight) : weight;
  if (call.entry.cut == Cut::per_tensor || call.entry.cut == Cut::channel) {
    return call.copy_same_shape(call.data, given);
  }
  const std::size_t cols = call.size(1);
  return call.copy_same_shape(call.data, given.narrow_padded(1, call.entry.tp_rank * cols, cols));
}

// One projection of gate and up, padded with zeros and cut like columns.
std::vector<Write> merged(const LinearCall& call, const JoinedView& weight, std::size_t part) {
  const EngineParameter& entry = call.entry;
  if (entry.cut == Cut::per_tensor) {
    if (weight.ndim() == 0) return call.copy_same_shape(call.data.select(part), weight);
    python_assert(weight.size(0) == 1);
    return call.copy_same_shape(call.data.select(part), weight.first());
  }
  const auto first = entry.output_sizes.begin();
  const std::size_t before = std::reduce(first, first + static_cast<std::ptrdiff_t>(part));
  const std::size_t offset = blocks_of(before, entry.block_rows) / entry.tp_size;
  const std::size_t rows = blocks_of(entry.output_sizes[part], entry.block_rows) / entry.tp_size;
  return call.copy_same_shape(call.data.narrow(0, offset, rows), weight.narrow_padded(0, entry.tp_rank * rows, rows));
}

// heads // ranks of the file's sinks, whose count nobody checks: a slice clips, and one sink would be spread over all.
std::vector<Write> sink(const LinearCall& call, const JoinedView& weight) {
  const std::size_t there = weight.size(0);
  const std::size_t heads = there / call.entry.tp_size;
  const std::size_t start = call.entry.tp_rank * heads;
  return call.copy(call.data, weight.narrow(0, start, heads));
}

}  // namespace

std::vector<Write> load_linear(const EngineParameter& parameter, std::uint32_t index, const JoinedView& weight,
                               std::optional<std::size_t> part, std::uint32_t tensor) {
  const LinearCall call{parameter, TargetView(parameter.parameter, index), tensor};
  switch (parameter.loader) {
    case Loader::plain:
      return default_weight_loader(call.data, weight, tensor);
    case Loader::replicated:
      return replicated(call, weight);
    case Loader::column:
      return column(call, weight);
    case Loader::row:
      return row(call, weight);
    case Loader::merged:
      return merged(call, weight, part.value_or(0));
    case Loader::sink:
      return sink(call, weight);
    case Loader::experts:
      // An expert's parameter reached by its own name: the call lacks the expert's number.
      throw Raised{"TypeError",
                   "FusedMoE.weight_loader() missing 3 required positional arguments: 'weight_name', 'shard_id', and "
                   "'expert_id'"};
  }
  return {};
}

}  // namespace mtpcheck::sglang
