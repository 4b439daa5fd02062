#include "harness/parity/trace/chain.h"

#include <fmt/format.h>

#include <cstring>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

const Tensor& recorded(const Trace& trace, const StageKey& key) {
  const Tensor* const tensor = find(trace, key);
  if (tensor == nullptr) {
    throw input_error(fmt::format("a further draft step needs {}, which was not recorded", to_string(key)));
  }
  return *tensor;
}

void merge(Trace& into, Trace from) {
  for (auto& [key, tensor] : from) into.insert_or_assign(key, std::move(tensor));
}

Trace run_step(Head& head, const HeadInput& input, std::size_t step, const Selections* forced,
               const std::function<bool(Stage)>& wanted) {
  TraceSink sink(wanted);
  ForwardOptions options;
  options.step = step;
  options.spec_step_idx = step;
  options.forced = forced;
  head.forward(input, options, sink);
  return sink.take();
}

}  // namespace

std::vector<std::size_t> last_rows(const HeadInput& input) {
  std::vector<std::size_t> rows;
  for (std::size_t s = 0; s < input.sequences(); ++s) {
    rows.push_back(static_cast<std::size_t>(input.cu_seqlens[s + 1]) - 1);
  }
  return rows;
}

std::vector<std::int64_t> drafted_tokens(const Trace& trace, std::size_t step, const HeadInput& input) {
  const Tensor& logits = recorded(trace, {Stage::logits, step, {}});
  const std::vector<double> values = to_f64(logits.view());
  const std::size_t width = logits.shape.back();
  std::vector<std::int64_t> tokens;
  for (const std::size_t row : last_rows(input)) {
    std::size_t best = 0;
    for (std::size_t token = 1; token < width; ++token) {
      if (values[row * width + token] > values[row * width + best]) best = token;
    }
    tokens.push_back(static_cast<std::int64_t>(best));
  }
  return tokens;
}

HeadInput next_input(const Trace& trace, std::size_t step, const HeadInput& input,
                     const std::vector<std::int64_t>& tokens) {
  const Tensor& hidden = recorded(trace, {Stage::final_layernorm, step, {}});
  const auto rows = last_rows(input);
  HeadInput next;
  next.input_ids = tokens;
  next.hidden_states = make_tensor(hidden.dtype, {rows.size(), hidden.shape.back()});
  const std::size_t row_bytes = rows.empty() ? 0 : next.hidden_states.bytes.size() / rows.size();
  next.cu_seqlens.push_back(0);
  for (std::size_t s = 0; s < rows.size(); ++s) {
    next.positions.push_back(input.positions[rows[s]] + 1);
    next.cu_seqlens.push_back(static_cast<std::int64_t>(s) + 1);
    std::memcpy(next.hidden_states.bytes.data() + s * row_bytes, hidden.bytes.data() + rows[s] * row_bytes, row_bytes);
  }
  return next;
}

Chain run_chain(Head& head, const HeadInput& input, std::size_t steps, const std::function<bool(Stage)>& wanted) {
  Chain chain;
  head.reset();
  chain.inputs.push_back(input);
  for (std::size_t step = 0; step < steps; ++step) {
    merge(chain.trace, run_step(head, chain.inputs[step], step, nullptr, wanted));
    if (step + 1 == steps) break;
    const auto tokens = drafted_tokens(chain.trace, step, chain.inputs[step]);
    chain.inputs.push_back(next_input(chain.trace, step, chain.inputs[step], tokens));
  }
  return chain;
}

Trace follow_chain(Head& head, const std::vector<HeadInput>& steps, const std::vector<Selections>& forced,
                   const std::function<bool(Stage)>& wanted) {
  Trace trace;
  head.reset();
  HeadInput input = steps.front();
  for (std::size_t step = 0; step < steps.size(); ++step) {
    if (step > 0) input = next_input(trace, step - 1, input, steps[step].input_ids);
    merge(trace, run_step(head, input, step, step < forced.size() ? &forced[step] : nullptr, wanted));
  }
  return trace;
}

}  // namespace mtpcheck
