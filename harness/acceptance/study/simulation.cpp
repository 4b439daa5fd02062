#include "harness/acceptance/study/simulation.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/acceptance/study/judge.h"
#include "reference/protocol/drafter.h"
#include "reference/random/philox.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

// Rows first … last of a trace with the target's own hidden states.
HeadInput confirmed_rows(const TargetTrace& trace, std::span<const float> hidden_states, std::size_t hidden,
                         std::size_t first, std::size_t last) {
  HeadInput input;
  std::vector<float> states;
  for (std::size_t i = first; i <= last; ++i) {
    input.input_ids.push_back(trace.input_ids[i + 1]);
    input.positions.push_back(trace.positions[i]);
    const auto row = hidden_states.subspan(i * hidden, hidden);
    states.insert(states.end(), row.begin(), row.end());
  }
  input.cu_seqlens = {0, static_cast<std::int64_t>(input.positions.size())};
  input.hidden_states = tensor_of<float>({input.positions.size(), hidden}, states);
  return input;
}

class Loop {
 public:
  Loop(Head& head, const TargetTrace& trace, const SimulationOptions& options, std::uint64_t sequence)
      : head_(head),
        trace_(trace),
        options_(options),
        random_(options.seed, sequence),
        hidden_(trace.target_hidden.shape.at(1)),
        target_hidden_(to_f32(trace.target_hidden.view())) {}

  AcceptanceCounts run() {
    AcceptanceCounts counts;
    head_.reset();
    std::size_t row = trace_.prompt_length >= 2 ? trace_.prompt_length - 2 : 0;
    std::size_t cached = 0;
    const std::size_t end = tokens_to_end(trace_, options_.eos);
    while (row + 1 < end && row + options_.depth + 1 < trace_.tokens()) {
      const std::size_t drafted = drafts_to_end(trace_, row, options_.depth, options_.eos);
      if (drafted == 0) break;
      const DraftStep first = draft_forward(head_, confirmed_rows(trace_, target_hidden_, hidden_, cached, row));
      const std::size_t accepted = std::min(drafted, drafts_accepted(first, row - cached, row));
      cached = row + 1;
      head_.rollback(0, cached);
      add_step(counts, drafted, accepted);
      row += accepted + 1;
    }
    return counts;
  }

 private:
  // Whether the draft at `depth` from `row` passes, and with which token the chain goes on.
  bool passes(std::span<const float> logits, std::size_t row, std::size_t depth, std::int64_t& next) const {
    const std::size_t judge = row + depth + 1;
    const std::int64_t token = trace_.input_ids[judge + 1];
    if (options_.greedy) {
      next = static_cast<std::int64_t>(argmax(logits, trace_.name.c_str()));
      return next == token;
    }
    next = token;
    const Judgement judged = judge_draft(trace_, judge, logits, token, options_.sampling);
    return random_.uniform(judge) < judged.continuation.low;
  }

  // All K drafts are made before the verification, as an engine does, also past a rejection.
  std::size_t drafts_accepted(const DraftStep& first, std::size_t last, std::size_t row) {
    DraftStep current = first;
    std::size_t accepted = 0;
    bool all = true;
    for (std::size_t depth = 0; depth < options_.depth; ++depth) {
      std::int64_t next = 0;
      all = passes(current.logits_of(last), row, depth, next) && all;
      accepted += all ? 1 : 0;
      if (depth + 1 == options_.depth) break;
      const NextRow rows[] = {{false, next, trace_.positions[row] + static_cast<std::int64_t>(depth) + 1,
                               std::span<const float>(current.hidden_states).subspan(last * hidden_, hidden_)}};
      current = draft_forward(head_, rows_as_input(rows, hidden_),
                              {.step = depth + 1, .spec_step_idx = depth + 1, .forced = nullptr});
      last = 0;
    }
    return accepted;
  }

  Head& head_;
  const TargetTrace& trace_;
  const SimulationOptions& options_;
  RandomStream random_;
  std::size_t hidden_;
  std::vector<float> target_hidden_;  // [T, H]
};

}  // namespace

std::vector<AcceptanceCounts> simulate(Head& head, std::span<const TargetTrace> traces,
                                       const SimulationOptions& options) {
  std::vector<AcceptanceCounts> counts;
  for (std::size_t s = 0; s < traces.size(); ++s) {
    const bool fits =
        options.greedy ? traces[s].origin == TraceOrigin::greedy : traces[s].origin == TraceOrigin::sampled;
    if (!fits) {
      throw usage_error(
          fmt::format("{}: {} verification along a {} trace: the loop follows the trace, so the target must "
                      "have written it that way",
                      traces[s].name, options.greedy ? "greedy" : "rejection", to_string(traces[s].origin)));
    }
    if (traces[s].top_n > 0) throw usage_error(fmt::format("{}: the loop needs whole logits", traces[s].name));
    counts.push_back(Loop(head, traces[s], options, s).run());
  }
  return counts;
}

}  // namespace mtpcheck
