#include <fmt/format.h>

#include "harness/inputs/input_file.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

void check_sequences(const HeadInput& input, const std::string& source) {
  const auto& bounds = input.cu_seqlens;
  const auto rows = static_cast<std::int64_t>(input.tokens());
  if (bounds.size() < 2 || bounds.front() != 0 || bounds.back() != rows) {
    throw input_error(fmt::format("{}: cu_seqlens has {} entries, {} to {}; at least two were expected, from 0 to {}",
                                  source, bounds.size(), bounds.empty() ? 0 : bounds.front(),
                                  bounds.empty() ? 0 : bounds.back(), rows));
  }
  for (std::size_t i = 1; i < bounds.size(); ++i) {
    if (bounds[i] <= bounds[i - 1]) {
      throw input_error(fmt::format("{}: cu_seqlens[{}] is {} after {}; sequences have at least one row", source, i,
                                    bounds[i], bounds[i - 1]));
    }
  }
}

}  // namespace

void check_input(const HeadInput& input, const HeadConfig& config, const std::string& source) {
  const std::size_t rows = input.tokens();
  if (rows == 0) throw input_error(fmt::format("{}: no rows", source));
  if (input.input_ids.size() != rows) {
    throw input_error(fmt::format("{}: {} input_ids but {} positions; one of each a row was expected", source,
                                  input.input_ids.size(), rows));
  }
  if (const Shape expected{rows, config.hidden_size}; input.hidden_states.shape != expected) {
    throw input_error(
        fmt::format("{}: the hidden states are {}; {} was expected, a row of hidden_size for each position", source,
                    to_string(input.hidden_states.shape), to_string(expected)));
  }
  for (std::size_t i = 0; i < rows; ++i) {
    const std::int64_t id = input.input_ids[i];
    if (id < 0 || static_cast<std::uint64_t>(id) >= config.vocab_size) {
      throw input_error(
          fmt::format("{}: input_ids[{}] is {}; 0 to {} were expected", source, i, id, config.vocab_size - 1));
    }
    if (input.positions[i] < 0) {
      throw input_error(
          fmt::format("{}: positions[{}] is {}; a position is not negative", source, i, input.positions[i]));
    }
  }
  check_sequences(input, source);
}

}  // namespace mtpcheck
