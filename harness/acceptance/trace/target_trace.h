#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// Where a trace's tokens come from, which decides what it can tell (docs/acceptance.md).
enum class TraceOrigin : std::uint8_t {
  natural,  ///< somebody's text, the target teacher-forced on it: depth 1 is sound
  greedy,   ///< the target's own greedy continuation: greedy acceptance is exact at every depth
  sampled,  ///< sampled from the target: rejection-sampling acceptance is estimated without bias at every depth
};

std::string_view to_string(TraceOrigin origin);

/// What the target model said about one sequence of T tokens. Row i pairs target_hidden[i] with token i+1 at
/// positions[i] and drafts token i+2, which the target's own row i+1 judges.
struct TargetTrace {
  std::string name;  ///< the file, for messages and reports
  TraceOrigin origin = TraceOrigin::natural;
  double temperature = 1.0;             ///< of a sampled trace
  std::size_t prompt_length = 0;        ///< tokens that are not the target's own; 0 on natural text
  std::vector<std::int64_t> input_ids;  // [T]
  std::vector<std::int64_t> positions;  // [T]
  Tensor target_hidden;                 // [T, H] after the target's final norm
  std::size_t vocabulary = 0;

  /// [T, V] float32 logits; empty when the trace holds only the top N.
  TensorView target_logits;
  /// [T, N] token ids by falling log-probability, and these; present instead of target_logits.
  std::vector<std::int32_t> top_ids;
  std::vector<float> top_log_probabilities;
  std::size_t top_n = 0;

  std::shared_ptr<const void> storage;  ///< keeps the mapped file alive

  std::size_t tokens() const { return input_ids.size(); }

  /// Row `token` of the logits, copied where the file's offset is not aligned. Only with target_logits.
  std::vector<float> logits_of(std::size_t token) const;
};

/// Throws Error{input} that names the trace, the tensor and the position: shapes that do not fit one another or the
/// head's dimensions, ids outside the vocabulary, positions that do not rise by one, NaN or +inf logits, rows of −inf,
/// top-N probabilities that sum to more than 1 or rise.
void check_trace(const TargetTrace& trace, std::size_t hidden_size, std::size_t vocab_size);

}  // namespace mtpcheck
