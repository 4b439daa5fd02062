#include "harness/loading/symbolic/default_weight_loader.h"

#include <fmt/format.h>

namespace mtpcheck {

std::vector<Write> default_weight_loader(const TargetView& data, const JoinedView& weight, std::uint32_t tensor) {
  if (data.numel() == 1 && weight.numel() == 1) {
    return JoinedView(weight.whole().reshape_ones(data.ndim())).copy_into(data, tensor);
  }
  python_assert(data.shape() == weight.shape(), fmt::format("Attempted to load weight ({}) into parameter ({})",
                                                            torch_size(weight.shape()), torch_size(data.shape())));
  return weight.copy_into(data, tensor);
}

}  // namespace mtpcheck
