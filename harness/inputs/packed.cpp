#include "harness/inputs/input_file.h"

namespace mtpcheck {

HeadInput packed(const std::vector<HeadInput>& inputs) {
  HeadInput all;
  all.cu_seqlens.push_back(0);
  for (const auto& input : inputs) {
    const auto before = static_cast<std::int64_t>(all.positions.size());
    all.input_ids.insert(all.input_ids.end(), input.input_ids.begin(), input.input_ids.end());
    all.positions.insert(all.positions.end(), input.positions.begin(), input.positions.end());
    all.hidden_states.dtype = input.hidden_states.dtype;
    all.hidden_states.bytes.insert(all.hidden_states.bytes.end(), input.hidden_states.bytes.begin(),
                                   input.hidden_states.bytes.end());
    for (std::size_t s = 1; s < input.cu_seqlens.size(); ++s) all.cu_seqlens.push_back(before + input.cu_seqlens[s]);
    all.hidden_states.shape = {all.positions.size(), input.hidden_states.shape.at(1)};
  }
  return all;
}

}  // namespace mtpcheck
