#include "harness/loading/vllm/load/expert_loader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "harness/loading/symbolic/python_text.h"
#include "harness/loading/symbolic/target_view.h"

namespace mtpcheck::vllm {
namespace {

// One call of the loader, past the question whether the expert is local.
struct ExpertCall {
  const EngineParameter& entry;
  TargetView data;
  const SourceView& weight;
  Shard shard;
  std::size_t slot;  // of the expert on this rank
  LoadLog& log;

  bool is_w2() const { return shard == Shard::w2; }
  bool modelopt() const {
    return entry.method == ExpertMethod::modelopt_fp8 || entry.method == ExpertMethod::modelopt_mxfp8 ||
           entry.method == ExpertMethod::modelopt_nvfp4;
  }
  bool named(std::string_view word) const { return contains(entry.parameter.name, word); }

  void copy(const TargetView& to, const SourceView& from) const { log.write(to.copy_(from)); }
};

// A padded parameter is filled from its corner: the destination shrinks to a smaller source, along both dimensions.
TargetView narrow_for_padding(TargetView data, const SourceView& weight) {
  if (weight.ndim() == 0) return data;
  const std::size_t dims = std::min(data.ndim(), weight.ndim());
  const std::size_t first = data.ndim() < 2 ? 0 : data.ndim() - 2;
  for (std::size_t dim = first; dim < dims; ++dim) {
    const std::size_t size = weight.size(static_cast<std::ptrdiff_t>(dim));
    if (data.size(static_cast<std::ptrdiff_t>(dim)) > size) data = data.narrow(dim, 0, size);
  }
  return data;
}

// The rank's share of whatever length the tensor has; nullopt where none is left for this rank.
std::optional<SourceView> share_of_rank(const ExpertCall& call, const SourceView& weight, std::size_t dim) {
  if (weight.ndim() == 0) return weight;
  const std::size_t length = weight.size(static_cast<std::ptrdiff_t>(dim));
  const std::size_t each = length / call.entry.tp_size;
  const std::size_t start = each * call.entry.tp_rank;
  if (start >= length) return std::nullopt;
  return weight.narrow(dim, start, std::min(each, length - start));
}

void check_data_dim(std::size_t dim, std::size_t ndim) {
  if (ndim >= 2 && dim + 2 != ndim && dim + 1 != ndim) {
    throw Raised{"ValueError", "shard_dim is not a valid data dimension"};
  }
}

void load_w13(const ExpertCall& call, const TargetView& expert_data, const SourceView& weight, std::size_t dim) {
  const std::size_t half = expert_data.size(static_cast<std::ptrdiff_t>(dim)) / 2;
  const std::optional<SourceView> loaded = share_of_rank(call, weight, dim);
  if (!loaded) return;
  const TargetView to = expert_data.narrow(dim, call.shard == Shard::w1 ? 0 : half, half);
  check_data_dim(dim, to.ndim());
  call.copy(narrow_for_padding(to, *loaded), *loaded);
}

void load_w2(const ExpertCall& call, const TargetView& expert_data, const SourceView& weight, std::size_t dim) {
  const std::optional<SourceView> loaded = share_of_rank(call, weight, dim);
  if (!loaded) return;
  check_data_dim(dim, expert_data.ndim());
  call.copy(narrow_for_padding(expert_data, *loaded), *loaded);
}

void load_weight_or_group_scale(const ExpertCall& call, const TargetView& expert_data, const SourceView& weight,
                                std::size_t dim) {
  call.is_w2() ? load_w2(call, expert_data, weight, dim) : load_w13(call, expert_data, weight, dim);
}

void load_channel_scale(const ExpertCall& call, const TargetView& expert_data, std::size_t dim) {
  if (call.is_w2()) {
    check_data_dim(dim, expert_data.ndim());
    call.copy(narrow_for_padding(expert_data, call.weight), call.weight);
  } else {
    load_w13(call, expert_data, call.weight, dim);
  }
}

// tensor[i] = value: leading dimensions of 1 of the value do not count.
void assign(const ExpertCall& call, const TargetView& to, const SourceView& value) {
  call.copy(to, value.without_leading_ones());
}

void load_tensor_scale(const ExpertCall& call) {
  const TargetView expert = call.data.select(call.slot);
  const TargetView to = call.is_w2() ? expert : expert.select(call.shard == Shard::w1 ? 0 : 1);
  assign(call, to, call.weight.reshape_scalar());
}

void load_input_scale(const ExpertCall& call) {
  if (call.modelopt() && call.data.ndim() == 2 && !call.is_w2()) {
    load_tensor_scale(call);
  } else {
    assign(call, call.data.select(call.slot), call.weight);
  }
}

// ModelOpt's own branch: which scales are one number is decided by the parameter's name.
void load_modelopt(const ExpertCall& call, const TargetView& expert_data, std::size_t dim) {
  const bool second_level = call.entry.method == ExpertMethod::modelopt_nvfp4;
  const bool block = call.named("weight_scale") && call.entry.scale == ExpertScale::block;
  if (call.named(second_level ? "weight_scale_2" : "weight_scale") && !block) {
    load_tensor_scale(call);
    return;
  }
  // Gate and up scales in one tensor: recognised by their number of rows, whichever shard asked for them.
  if (call.named("w13_weight_scale") && call.weight.size(-2) == call.data.size(-2) * call.entry.tp_size) {
    const std::size_t size = expert_data.size(static_cast<std::ptrdiff_t>(dim));
    call.copy(expert_data, call.weight.narrow(dim, size * call.entry.tp_rank, size));
    return;
  }
  if (call.named("weight")) load_weight_or_group_scale(call, expert_data, call.weight, dim);
}

void load_by_scale(const ExpertCall& call, const TargetView& expert_data, std::size_t dim) {
  switch (call.entry.scale) {
    case ExpertScale::channel:
      load_channel_scale(call, expert_data, dim);
      return;
    case ExpertScale::block: {
      const EngineParameter& entry = call.entry;
      const bool refined = entry.refine_rows > 1 || entry.refine_cols > 1;
      const SourceView weight =
          refined ? call.weight.repeat_interleave(entry.refine_rows, -2).repeat_interleave(entry.refine_cols, -1)
                  : call.weight;
      load_weight_or_group_scale(call, expert_data, weight, dim);
      return;
    }
    case ExpertScale::tensor:
      load_tensor_scale(call);
      return;
    case ExpertScale::none:
      throw Raised{"ValueError", "quant method must be one of ['tensor', 'channel', 'group', 'block']"};
  }
}

void load_local(const ExpertCall& call) {
  std::size_t dim = call.is_w2() ? 1 : 0;
  const bool every_expert = call.weight.ndim() == 3;
  if (every_expert) ++dim;
  const TargetView expert_data = every_expert ? call.data : call.data.select(call.slot);
  if (call.named("input_scale")) {
    load_input_scale(call);
  } else if (call.modelopt()) {
    load_modelopt(call, expert_data, dim);
  } else if (call.named("scale")) {
    load_by_scale(call, expert_data, dim);
  } else {
    load_weight_or_group_scale(call, expert_data, call.weight, dim);
  }
}

}  // namespace

bool load_expert(const EngineParameter& parameter, std::uint32_t index, const SourceView& weight, Shard shard,
                 std::size_t expert, const std::vector<std::int64_t>& local_expert, LoadLog& log) {
  log.begin_load(index, shard, static_cast<std::int32_t>(expert));
  const std::int64_t slot = local_expert[expert];
  if (slot < 0) return false;
  load_local({parameter, TargetView(parameter.parameter, index), weight, shard, static_cast<std::size_t>(slot), log});
  log.end_load();
  return true;
}

}  // namespace mtpcheck::vllm
