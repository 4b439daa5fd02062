#include "harness/parity/dump/candidate_dump.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/checkpoint/bounded_json.h"
#include "harness/parity/dump/adopt.h"
#include "harness/parity/reference_side/reference_side.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

Mapping read_mapping(const std::filesystem::path& path) {
  if (path.empty()) return {};
  return {read_bounded_json(path), path.string()};
}

/// Tokens of a step: the dump's own ids, of which the last `sequences` are the step's rows.
std::vector<std::int64_t> tokens_of(const Dump& dump, std::size_t step, std::size_t sequences, const Trace& trace,
                                    const HeadInput& before) {
  const auto found = dump.find(fmt::format("step{}.input_ids", step));
  if (found == dump.end()) return drafted_tokens(trace, step - 1, before);
  auto ids = to_i64(found->second.ranks.front().view(found->first));
  if (ids.size() == sequences) return ids;
  if (sequences == 1 && !ids.empty()) return {ids.back()};
  throw input_error(fmt::format("{} has {} ids for {} sequences", found->first, ids.size(), sequences));
}

void require_numbers(const Trace& trace, const std::filesystem::path& path) {
  for (const auto& [key, tensor] : trace) {
    if (info(key.stage).kind != StageKind::values || is_plain_float(tensor.dtype)) continue;
    throw input_error(fmt::format("{}: {} is stored as {}; F64, F32, BF16 or F16 was expected", path.string(),
                                  to_string(key), safetensors_name(tensor.dtype)));
  }
}

Dtype shortest(const Trace& trace) {
  Dtype shortest = Dtype::f64;
  for (const auto& [key, tensor] : trace) {
    if (is_floating(tensor.dtype) && bits_of(tensor.dtype) < bits_of(shortest)) shortest = tensor.dtype;
  }
  return bits_of(shortest) < 16 ? Dtype::bf16 : shortest;
}

}  // namespace

CandidateDump read_candidate_dump(const DumpChoice& choice, const HeadConfig& config, const HeadInput& input,
                                  const std::function<bool(Stage)>& wanted) {
  const Mapping mapping = read_mapping(choice.mapping);
  const Dump dump = under_prefix(read_dump(choice.path), choice.prefix);
  if (dump.empty()) {
    throw input_error(fmt::format("{}: no tensor's name begins with '{}'", choice.path.string(), choice.prefix));
  }
  CandidateDump candidate;
  std::vector<HeadInput>& steps = candidate.chain.inputs;
  steps.push_back(input);
  Adopted adopted = adopt(dump, mapping, expected_stages(config, steps, wanted), input.cu_seqlens, wanted);
  for (std::size_t step = 1; step < choice.steps; ++step) {
    const auto tokens = tokens_of(dump, step, input.sequences(), adopted.trace, steps.back());
    steps.push_back(next_input(adopted.trace, step - 1, steps.back(), tokens));
    adopted = adopt(dump, mapping, expected_stages(config, steps, wanted), input.cu_seqlens, wanted);
  }
  require_numbers(adopted.trace, choice.path);
  candidate.chain.trace = std::move(adopted.trace);
  candidate.unmatched = std::move(adopted.unmatched);
  candidate.notes = std::move(adopted.notes);
  candidate.precision = shortest(candidate.chain.trace);
  return candidate;
}

}  // namespace mtpcheck
