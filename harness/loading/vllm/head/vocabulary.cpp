#include "harness/loading/vllm/head/parameters.h"

namespace mtpcheck::vllm {

void add_vocabulary(const Vocabulary& vocabulary, const Scheme& scheme, const LayerContext& context,
                    std::vector<EngineParameter>& parameters) {
  constexpr std::size_t kPadding = 64;
  const std::size_t padded = (vocabulary.rows.value + kPadding - 1) / kPadding * kPadding;
  // A quantised head is made by the linear method, of this rank's padded rows.
  LayerContext whole = context;
  whole.tp_size = 1;
  whole.tp_rank = 0;
  const Linear linear{
      vocabulary.name,    {},
      Loader::vocabulary, true,
      vocabulary.cols,    {{"", {share({padded, vocabulary.rows.key}, context.tp_size), vocabulary.rows.key}}}};
  const std::size_t first = parameters.size();
  add_linear(linear, scheme, whole, parameters);
  for (std::size_t i = first; i < parameters.size(); ++i) {
    parameters[i].parameter.sharding = Sharding::embedding;
    parameters[i].output_sizes = {vocabulary.rows.value};
    parameters[i].tp_size = context.tp_size;
    parameters[i].tp_rank = context.tp_rank;
  }
}

}  // namespace mtpcheck::vllm
