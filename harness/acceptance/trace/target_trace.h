#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
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

/// A row of float32 logits: in the file's mapping, or a copy where the file's offset is not aligned.
class LogitsRow {
 public:
  explicit LogitsRow(std::span<const float> row) : row_(row) {}
  explicit LogitsRow(std::vector<float> copy) : copy_(std::move(copy)), row_(copy_) {}
  LogitsRow(LogitsRow&&) = default;
  LogitsRow& operator=(LogitsRow&&) = default;
  LogitsRow(const LogitsRow&) = delete;
  LogitsRow& operator=(const LogitsRow&) = delete;
  ~LogitsRow() = default;

  std::span<const float> values() const { return row_; }

 private:
  std::vector<float> copy_;
  std::span<const float> row_;
};

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
  /// [T] what the other tokens share, where the trace says so; empty: 1 − Σ of the N.
  std::vector<float> remaining_mass;

  std::shared_ptr<const void> storage;  ///< keeps the mapped file alive

  std::size_t tokens() const { return input_ids.size(); }

  /// Row `token` of the logits. Only with target_logits.
  LogitsRow logits_of(std::size_t token) const;
};

/// Throws Error{input} that names the trace, the tensor and the position: shapes that do not fit one another or the
/// head's dimensions, ids outside the vocabulary, positions that do not count from 0 by one (a draft attends to every
/// row before its own, so a trace begins where its sequence does), NaN or +inf logits, rows of −inf, top-N
/// probabilities that rise, or do not sum to 1 with what remains.
void check_trace(const TargetTrace& trace, std::size_t hidden_size, std::size_t vocab_size);

/// Drafts of the chain from `row` that are text: an end-of-sequence token is drafted, what follows it is not, and a
/// chain that would begin with one drafts nothing. At most `depth`.
std::size_t drafts_to_end(const TargetTrace& trace, std::size_t row, std::size_t depth,
                          std::span<const std::int64_t> eos);

/// Tokens up to and with the end-of-sequence token that ended the target's own text; all tokens where none did, and of
/// natural text, in which a document may follow another.
std::size_t tokens_to_end(const TargetTrace& trace, std::span<const std::int64_t> eos);

}  // namespace mtpcheck
