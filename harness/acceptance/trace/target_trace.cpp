#include "harness/acceptance/trace/target_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

[[noreturn]] void refuse(const TargetTrace& trace, const std::string& what) {
  throw input_error(fmt::format("{}: {}", trace.name, what));
}

void check_rows(const TargetTrace& trace) {
  const std::size_t tokens = trace.tokens();
  if (tokens < 3) refuse(trace, fmt::format("{} tokens: a draft needs at least 3", tokens));
  if (trace.positions.size() != tokens) {
    refuse(trace, fmt::format("positions has {} entries, input_ids {}", trace.positions.size(), tokens));
  }
  if (trace.positions[0] != 0) {
    refuse(trace, fmt::format("positions[0] is {}: a trace begins where its sequence does, at position 0",
                              trace.positions[0]));
  }
  for (std::size_t i = 1; i < tokens; ++i) {
    if (trace.positions[i] != trace.positions[i - 1] + 1) {
      refuse(trace, fmt::format("positions[{}] is {} after {}: positions of one sequence rise by one", i,
                                trace.positions[i], trace.positions[i - 1]));
    }
  }
  if (trace.prompt_length >= tokens) {
    refuse(trace, fmt::format("prompt_length {} leaves nothing of {} tokens", trace.prompt_length, tokens));
  }
}

void check_ids(const TargetTrace& trace, std::size_t vocab_size) {
  for (std::size_t i = 0; i < trace.tokens(); ++i) {
    const std::int64_t id = trace.input_ids[i];
    if (id < 0 || static_cast<std::size_t>(id) >= vocab_size) {
      refuse(trace, fmt::format("input_ids[{}] is {}: the vocabulary has {} tokens", i, id, vocab_size));
    }
  }
}

void check_logits(const TargetTrace& trace) {
  for (std::size_t i = 0; i < trace.tokens(); ++i) {
    bool any = false;
    const LogitsRow logits = trace.logits_of(i);
    const auto row = logits.values();
    for (std::size_t token = 0; token < row.size(); ++token) {
      const float logit = row[token];
      if (std::isnan(logit) || (std::isinf(logit) && logit > 0)) {
        refuse(trace, fmt::format("target_logits at position {}, token {} is {}", i, token, logit));
      }
      any = any || !std::isinf(logit);
    }
    if (!any) refuse(trace, fmt::format("target_logits at position {}: every logit is -inf", i));
  }
}

// The N leave at most what remains, exactly that where the trace states it, and nothing where they are all.
void check_mass(const TargetTrace& trace, std::size_t i, double mass) {
  constexpr double kRounding = 1e-4;  // of a sum of float32 log-probabilities
  const bool stated = !trace.remaining_mass.empty();
  const double rest = stated ? static_cast<double>(trace.remaining_mass[i]) : 0.0;
  if (!(rest >= -kRounding)) refuse(trace, fmt::format("remaining_mass at position {} is {}", i, rest));
  const bool exact = stated || trace.top_n == trace.vocabulary;
  if (!(mass + rest <= 1 + kRounding) || (exact && !(mass + rest >= 1 - kRounding))) {
    refuse(trace, fmt::format("the probabilities at position {} sum to {}{}, {}", i, mass,
                              stated ? fmt::format(" and {} remain", rest) : "",
                              exact ? "1 was expected" : "at most 1 was expected"));
  }
}

void check_top(const TargetTrace& trace, std::size_t vocab_size) {
  for (std::size_t i = 0; i < trace.tokens(); ++i) {
    double mass = 0;
    for (std::size_t n = 0; n < trace.top_n; ++n) {
      const std::int32_t id = trace.top_ids[i * trace.top_n + n];
      const float value = trace.top_log_probabilities[i * trace.top_n + n];
      if (id < 0 || static_cast<std::size_t>(id) >= vocab_size) {
        refuse(trace, fmt::format("top_ids at position {}, rank {} is {}: the vocabulary has {} tokens", i, n, id,
                                  vocab_size));
      }
      if (!(value <= 1e-6F) || (n > 0 && value > trace.top_log_probabilities[i * trace.top_n + n - 1])) {
        refuse(trace,
               fmt::format("top_log_probabilities at position {}, rank {} is {}: falling values up to 0 were expected",
                           i, n, value));
      }
      mass += std::exp(static_cast<double>(value));
    }
    check_mass(trace, i, mass);
  }
}

}  // namespace

std::string_view to_string(TraceOrigin origin) {
  switch (origin) {
    case TraceOrigin::natural:
      return "natural";
    case TraceOrigin::greedy:
      return "greedy";
    case TraceOrigin::sampled:
      return "sampled";
  }
  return {};
}

LogitsRow TargetTrace::logits_of(std::size_t token) const {
  const std::byte* const first = target_logits.bytes.data() + token * vocabulary * sizeof(float);
  if (reinterpret_cast<std::uintptr_t>(first) % alignof(float) == 0) {
    return LogitsRow(std::span(reinterpret_cast<const float*>(first), vocabulary));
  }
  std::vector<float> row(vocabulary);
  std::memcpy(row.data(), first, vocabulary * sizeof(float));
  return LogitsRow(std::move(row));
}

void check_trace(const TargetTrace& trace, std::size_t hidden_size, std::size_t vocab_size) {
  check_rows(trace);
  check_ids(trace, vocab_size);
  const Shape hidden{trace.tokens(), hidden_size};
  if (trace.target_hidden.shape != hidden) {
    refuse(trace, fmt::format("target_hidden is {}, the head expects {}", to_string(trace.target_hidden.shape),
                              to_string(hidden)));
  }
  const auto states = to_f32(trace.target_hidden.view("target_hidden"));
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!std::isfinite(states[i])) {
      refuse(trace, fmt::format("target_hidden at position {}, channel {} is {}", i / hidden_size, i % hidden_size,
                                states[i]));
    }
  }
  if (trace.vocabulary != vocab_size) {
    refuse(trace, fmt::format("its vocabulary has {} tokens, the head's {}", trace.vocabulary, vocab_size));
  }
  if (trace.top_n > 0) {
    check_top(trace, vocab_size);
  } else {
    check_logits(trace);
  }
}

std::size_t drafts_to_end(const TargetTrace& trace, std::size_t row, std::size_t depth,
                          std::span<const std::int64_t> eos) {
  const auto ends = [&](std::size_t token) {
    return token < trace.tokens() && std::ranges::find(eos, trace.input_ids[token]) != eos.end();
  };
  if (ends(row + 1)) return 0;
  for (std::size_t k = 0; k < depth; ++k) {
    if (ends(row + 2 + k)) return k + 1;
  }
  return depth;
}

std::size_t tokens_to_end(const TargetTrace& trace, std::span<const std::int64_t> eos) {
  if (trace.origin == TraceOrigin::natural) return trace.tokens();
  for (std::size_t i = trace.prompt_length; i < trace.tokens(); ++i) {
    if (std::ranges::find(eos, trace.input_ids[i]) != eos.end()) return i + 1;
  }
  return trace.tokens();
}

}  // namespace mtpcheck
