#include "reference/protocol/drafter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

class LastStages final : public StageSink {
 public:
  explicit LastStages(DraftStep& step) : step_(step) {}

  bool wants(Stage stage) const override { return stage == Stage::logits || stage == Stage::final_layernorm; }

  void record(const StageKey& key, const TensorView& value) override {
    if (!wants(key.stage)) return;
    step_.rows = value.shape.at(0);
    const bool logits = key.stage == Stage::logits;
    (logits ? step_.vocabulary : step_.hidden) = value.shape.at(1);
    (logits ? step_.logits : step_.hidden_states) = to_f32(value);
  }

 private:
  DraftStep& step_;
};

}  // namespace

DraftStep draft_forward(Head& head, const HeadInput& input, const ForwardOptions& options) {
  DraftStep step;
  LastStages sink(step);
  head.forward(input, options, sink);
  return step;
}

HeadInput rows_as_input(std::span<const NextRow> rows, std::size_t hidden_size) {
  HeadInput input;
  input.cu_seqlens.push_back(0);
  std::vector<float> hidden;
  for (const auto& row : rows) {
    if (!row.empty) {
      input.input_ids.push_back(row.token);
      input.positions.push_back(row.position);
      hidden.insert(hidden.end(), row.hidden.begin(), row.hidden.end());
    }
    input.cu_seqlens.push_back(static_cast<std::int64_t>(input.positions.size()));
  }
  input.hidden_states = tensor_of<float>({input.positions.size(), hidden_size}, hidden);
  return input;
}

HeadInput prefix_rows(std::span<const std::int64_t> tokens, const Tensor& hidden_states, std::int64_t first_position) {
  const std::size_t rows = hidden_states.shape.at(0);
  if (tokens.size() != rows + 1) {
    throw input_error(fmt::format("{} tokens for {} hidden states: {} were expected", tokens.size(), rows, rows + 1));
  }
  HeadInput input;
  input.input_ids.assign(tokens.begin() + 1, tokens.end());
  for (std::size_t i = 0; i < rows; ++i) input.positions.push_back(first_position + static_cast<std::int64_t>(i));
  input.hidden_states = hidden_states;
  input.cu_seqlens = {0, static_cast<std::int64_t>(rows)};
  return input;
}

std::vector<std::vector<std::int64_t>> draft(Head& head, const DraftStep& first, std::span<const std::size_t> last_rows,
                                             std::span<const std::int64_t> last_positions, std::size_t steps,
                                             const ChooseDraft& choose,
                                             const std::function<void(std::size_t, const DraftStep&)>& observe) {
  const std::size_t sequences = last_rows.size();
  std::vector<std::vector<std::int64_t>> drafts(sequences);
  DraftStep current = first;
  std::vector<std::size_t> row_of(last_rows.begin(), last_rows.end());
  for (std::size_t step = 0; step < steps; ++step) {
    if (observe) observe(step, current);
    std::vector<NextRow> next(sequences);
    for (std::size_t s = 0; s < sequences; ++s) {
      const std::int64_t token = choose(s, step, current.logits_of(row_of[s]));
      drafts[s].push_back(token);
      next[s] = {false, token, last_positions[s] + static_cast<std::int64_t>(step) + 1,
                 std::span<const float>(current.hidden_states).subspan(row_of[s] * current.hidden, current.hidden)};
    }
    if (step + 1 == steps) break;
    const HeadInput input = rows_as_input(next, current.hidden);
    current = draft_forward(head, input, {.step = step + 1, .spec_step_idx = step + 1, .forced = nullptr});
    for (std::size_t s = 0; s < sequences; ++s) row_of[s] = s;
  }
  return drafts;
}

}  // namespace mtpcheck
