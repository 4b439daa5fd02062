#include "harness/loading/vllm/load/linear_loader.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "harness/loading/symbolic/default_weight_loader.h"
#include "harness/loading/symbolic/target_view.h"

namespace mtpcheck::vllm {
namespace {

std::size_t blocks(std::size_t size, std::size_t block) { return (size + block - 1) / block; }

// One parameter, one checkpoint tensor and the log: the arguments that every loader shares.
struct LinearCall {
  const EngineParameter& entry;
  TargetView data;
  LoadLog& log;

  const Shape& shape() const { return entry.parameter.shape; }
  void copy(const TargetView& to, const SourceView& from) const { log.write(to.copy_(from)); }
  void copy_same_shape(const TargetView& to, const SourceView& from) const {
    python_assert(to.shape() == from.shape());
    copy(to, from);
  }
};

void load_plain(const LinearCall& call, const TargetView& data, const SourceView& weight) {
  call.log.write(default_weight_loader(data, weight, call.log.tensor()));
}

void load_replicated(const LinearCall& call, const SourceView& weight) {
  const SourceView loaded = weight.ndim() == 0 ? weight.reshape_1() : weight;
  python_assert(call.shape() == loaded.shape(), fmt::format("Tried to load weights of size {}to a parameter of size {}",
                                                            torch_size(loaded.shape()), torch_size(call.shape())));
  call.copy(call.data, loaded);
}

// This rank's share along one dimension: whatever lies beyond the group's shares is never looked at.
void load_share(const LinearCall& call, const SourceView& weight, std::size_t dim) {
  const std::size_t size = call.data.size(static_cast<std::ptrdiff_t>(dim));
  call.copy_same_shape(call.data, weight.narrow(dim, call.entry.tp_rank * size, size));
}

void load_column(const LinearCall& call, const SourceView& weight) {
  const SourceView loaded = weight.ndim() == 0 ? weight.reshape_1() : weight;
  if (call.entry.cut == Cut::per_tensor) {
    call.copy_same_shape(call.data, loaded);
  } else {
    load_share(call, loaded, call.entry.row_dim);
  }
}

void load_row(const LinearCall& call, const SourceView& weight) {
  const SourceView loaded = weight.ndim() == 0 ? weight.reshape_1() : weight;
  if (call.entry.cut == Cut::per_tensor || call.entry.cut == Cut::channel) {
    call.copy_same_shape(call.data, loaded);
  } else {
    load_share(call, loaded, call.entry.col_dim);
  }
}

void load_projection(const LinearCall& call, const SourceView& weight, std::size_t part) {
  const EngineParameter& entry = call.entry;
  if (entry.cut == Cut::per_tensor) {
    SourceView scale = weight;
    if (scale.ndim() != 0) {
      python_assert(scale.size(0) == 1);
      scale = scale.select(0);
    }
    call.copy_same_shape(call.data.select(part), scale);
    return;
  }
  const auto first = entry.output_sizes.begin();
  std::size_t offset = std::reduce(first, first + static_cast<std::ptrdiff_t>(part)) / entry.tp_size;
  std::size_t size = entry.output_sizes[part] / entry.tp_size;
  if (entry.cut == Cut::block) {
    offset = blocks(offset, entry.scale_block_rows);
    size = blocks(size, entry.scale_block_rows);
  }
  const TargetView to = call.data.narrow(entry.row_dim, offset, size);
  call.copy_same_shape(to, weight.narrow(entry.row_dim, entry.tp_rank * size, size));
}

// A tensor whose projections are already fused in the checkpoint is taken apart again.
void load_prefused(const LinearCall& call, const SourceView& weight) {
  const EngineParameter& entry = call.entry;
  if (entry.cut == Cut::per_tensor) {
    for (std::size_t part = 0; part < entry.output_sizes.size(); ++part) load_projection(call, weight, part);
    return;
  }
  std::size_t offset = 0;
  for (std::size_t part = 0; part < entry.output_sizes.size(); ++part) {
    const std::size_t size =
        entry.cut == Cut::block ? blocks(entry.output_sizes[part], entry.scale_block_rows) : entry.output_sizes[part];
    load_projection(call, weight.narrow(entry.row_dim, offset, size), part);
    offset += size;
  }
}

void load_vocabulary(const LinearCall& call, const SourceView& weight) {
  const EngineParameter& entry = call.entry;
  if (entry.cut == Cut::per_tensor) {
    const bool scalar = weight.ndim() == 0 && call.data.ndim() == 1 && call.data.numel() == 1;
    call.copy_same_shape(call.data, scalar ? weight.reshape_1() : weight);
    return;
  }
  const std::size_t vocabulary = entry.output_sizes[0];
  const std::size_t rows = call.shape()[0];
  python_assert(weight.size(static_cast<std::ptrdiff_t>(entry.row_dim)) == vocabulary);
  const std::size_t start = std::min(entry.tp_rank * rows, vocabulary);
  const std::size_t count = std::min((entry.tp_rank + 1) * rows, vocabulary) - start;
  const SourceView loaded = weight.narrow(entry.row_dim, start, count);
  call.copy(call.data.first(loaded.size(0)), loaded);
  call.log.write(call.data.from(loaded.size(0)).fill_(0, call.log.tensor()));
}

void load_sink(const LinearCall& call, const SourceView& weight) {
  const std::size_t heads = weight.numel();
  if (heads % call.entry.tp_size != 0) {
    throw Raised{"ValueError",
                 fmt::format("Attention sink heads ({}) must be divisible by tp_size ({})", heads, call.entry.tp_size)};
  }
  const std::size_t local = heads / call.entry.tp_size;
  load_plain(call, call.data.first(local), weight.narrow(0, call.entry.tp_rank * local, local));
  call.log.write(call.data.from(local).fill_(-std::numeric_limits<float>::infinity(), call.log.tensor()));
}

void load_kv_scale(const LinearCall& call, const SourceView& weight) {
  if (weight.numel() != 1) {
    const std::string shape = fmt::format("{}", torch_size(weight.shape()));
    throw Raised{"ValueError", "KV-cache scale expects a scalar weight, got shape " + shape};
  }
  call.copy(call.data, weight.reshape_scalar());
}

}  // namespace

void load_parameter(const EngineParameter& parameter, std::uint32_t index, const SourceView& weight,
                    std::optional<std::size_t> part, LoadLog& log) {
  const Shard shard = !part ? Shard::none : *part == 0 ? Shard::first : Shard::second;
  log.begin_load(index, shard);
  const LinearCall call{parameter, TargetView(parameter.parameter, index), log};
  switch (parameter.loader) {
    case Loader::plain:
      load_plain(call, call.data, weight);
      break;
    case Loader::replicated:
      load_replicated(call, weight);
      break;
    case Loader::column:
      load_column(call, weight);
      break;
    case Loader::row:
      load_row(call, weight);
      break;
    case Loader::merged:
      part ? load_projection(call, weight, *part) : load_prefused(call, weight);
      break;
    case Loader::vocabulary:
      load_vocabulary(call, weight);
      break;
    case Loader::sink:
      load_sink(call, weight);
      break;
    case Loader::kv_scale:
      load_kv_scale(call, weight);
      break;
    case Loader::experts:
      // An expert's parameter reached by its own name: the call lacks the expert's number.
      throw Raised{"TypeError",
                   "RoutedExperts.weight_loader() missing 3 required positional arguments: "
                   "'weight_name', 'shard_id', and 'expert_id'"};
  }
  log.end_load();
}

}  // namespace mtpcheck::vllm
