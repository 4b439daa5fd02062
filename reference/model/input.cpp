#include "reference/model/input.h"

namespace mtpcheck {

HeadInput rows_between(const HeadInput& all, std::size_t first, std::size_t last) {
  HeadInput part;
  const auto from = static_cast<std::ptrdiff_t>(first);
  const auto to = static_cast<std::ptrdiff_t>(last);
  part.input_ids = {all.input_ids.begin() + from, all.input_ids.begin() + to};
  part.positions = {all.positions.begin() + from, all.positions.begin() + to};
  const std::size_t row = all.hidden_states.bytes.size() / all.tokens();
  const auto* const data = all.hidden_states.bytes.data();
  part.hidden_states = {
      all.hidden_states.dtype, {last - first, all.hidden_states.shape[1]}, {data + first * row, data + last * row}};
  part.cu_seqlens = {0, to - from};
  return part;
}

}  // namespace mtpcheck
