#include "harness/loading/sglang/load/expert_loader.h"

#include <fmt/format.h>

#include "harness/loading/symbolic/python_text.h"
#include "harness/loading/symbolic/target_view.h"

namespace mtpcheck::sglang {
namespace {

struct ExpertCall {
  const EngineParameter& entry;
  TargetView expert;  // the parameter's data of this expert
  Shard shard;
  std::uint32_t tensor;
  std::vector<Write> writes;

  bool is_down() const { return shard == Shard::w2; }
  bool named(std::string_view word) const { return contains(entry.parameter.name, word); }
  void add(const std::optional<Write>& write) {
    if (write) writes.push_back(*write);
  }
};

// The rank's share of whatever length the tensor has, copied to the front of its place; the rest of the place is
// zeroed. Only the dimension that ranks share is treated so: along the other one shapes must fit.
void load_share(ExpertCall& call, const TargetView& place, const SourceView& weight, std::size_t dim) {
  const auto at = static_cast<std::ptrdiff_t>(dim);
  const std::size_t each = weight.size(at) / call.entry.tp_size;
  const SourceView loaded = weight.narrow(dim, each * call.entry.tp_rank, each);
  if (loaded.ndim() == place.ndim() && dim < place.ndim() && each < place.size(at)) {
    call.add(place.narrow(dim, each, place.size(at) - each).fill_(0, call.tensor));
    call.add(place.narrow(dim, 0, each).copy_(loaded));
  } else {
    call.add(place.copy_(loaded));
  }
}

void load_matrix(ExpertCall& call, const SourceView& weight) {
  if (call.is_down()) {
    load_share(call, call.expert, weight, 1);
    return;
  }
  const std::size_t half = call.expert.size(0) / 2;
  load_share(call, call.expert.narrow(0, call.shard == Shard::w1 ? 0 : half, half), weight, 0);
}

// param[expert][which] = value: leading dimensions of 1 of the value do not count.
void load_number(ExpertCall& call, const SourceView& weight) {
  const TargetView place = call.is_down() ? call.expert : call.expert.select(call.shard == Shard::w1 ? 0 : 1);
  call.add(place.copy_(weight.without_leading_ones()));
}

}  // namespace

ExpertLoad load_expert(const EngineParameter& parameter, std::uint32_t index, const SourceView& weight, Shard shard,
                       std::size_t expert, const DraftHead& head, std::uint32_t tensor) {
  const bool local = expert >= head.first_expert && expert - head.first_expert < head.local_experts;
  if (!local && !parameter.all_experts) return {};
  const TargetView data(parameter.parameter, index);
  ExpertCall call{
      parameter, data.select(parameter.all_experts ? expert : expert - head.first_expert), shard, tensor, {}};
  const bool each_tensor = parameter.scheme == Scheme::Kind::fp8_tensor;
  if (call.named("input_scale")) {
    // One value for gate and up alike: the last one read stays.
    call.add(call.expert.copy_(weight.without_leading_ones()));
  } else if (call.named("weight_scale_2") || (call.named("weight_scale") && each_tensor)) {
    load_number(call, weight);
  } else if (parameter.scheme == Scheme::Kind::fp8_channel && call.named("scale") && call.is_down()) {
    call.add(call.expert.copy_(weight));
  } else {
    load_matrix(call, weight);
  }
  return {true, std::move(call.writes)};
}

}  // namespace mtpcheck::sglang
