// Mistakes between target and draft: what is fed to the head, and what is carried from one step to the next.

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/faults/catalogue/fault.h"

namespace mtpcheck {
namespace {

// Changes the hidden states row by row, as float32.
template <class Change>
void change_hidden(HeadInput& input, Change change) {
  auto values = to_f32(input.hidden_states.view());
  const std::size_t hidden = input.hidden_states.shape.at(1);
  for (std::size_t row = 0; row < input.tokens(); ++row) change(std::span(values).subspan(row * hidden, hidden));
  input.hidden_states = tensor_of<float>(input.hidden_states.shape, values);
}

// Calls visit(first, end) with the packed rows of each sequence that has any.
template <class Visit>
void for_each_sequence(const HeadInput& input, Visit visit) {
  for (std::size_t s = 0; s < input.sequences(); ++s) {
    const auto first = static_cast<std::size_t>(input.cu_seqlens[s]);
    const auto end = static_cast<std::size_t>(input.cu_seqlens[s + 1]);
    if (first < end) visit(first, end);
  }
}

constexpr std::int64_t kBeginOfText = 257;  // tiny-hy4's; the token before a passage's second

constexpr std::array kProtocolFaults{
    Fault{.id = "positions-plus-one",
          .row = "P03",
          .kind = FaultKind::protocol,
          .what = "every position one too high",
          .source = "vllm#49938",
          .caught_by = Catcher::compare,
          .where = "embed_masked",
          .base = "bf16",
          .protocol =
              [](ProtocolMistake& m) {
                for (auto& position : m.input.positions) ++position;
              }},
    Fault{.id = "positions-count-rejected",
          .row = "P05",
          .kind = FaultKind::protocol,
          .what = "positions go on from drafted, not accepted tokens: a gap of three at row 40",
          .source = "vllm#47920",
          .caught_by = Catcher::compare,
          .where = "q_rope",
          .base = "bf16",
          .protocol =
              [](ProtocolMistake& m) {
                for (std::size_t i = 40; i < static_cast<std::size_t>(m.input.cu_seqlens[1]); ++i)
                  m.input.positions[i] += 3;
              }},
    Fault{.id = "hidden-of-previous-row",
          .row = "P01",
          .kind = FaultKind::protocol,
          .what = "hidden states one row late",
          .source = "llama.cpp#24025",
          .caught_by = Catcher::compare,
          .where = "hnorm",
          .base = "bf16",
          .protocol =
              [](ProtocolMistake& m) {
                auto& bytes = m.input.hidden_states.bytes;
                const auto row = static_cast<std::ptrdiff_t>(bytes.size() / m.input.tokens());
                std::copy_backward(bytes.begin(), bytes.end() - row, bytes.end());
              }},
    Fault{.id = "token-not-shifted",
          .row = "P02",
          .kind = FaultKind::protocol,
          .what = "the embedding of token i instead of i+1",
          .source = "sglang#3798",
          .caught_by = Catcher::compare,
          .where = "embed_masked",
          .base = "bf16",
          .protocol =
              [](ProtocolMistake& m) {
                std::copy_backward(m.input.input_ids.begin(), m.input.input_ids.end() - 1, m.input.input_ids.end());
              }},
    Fault{.id = "hidden-before-final-norm",
          .row = "P01",
          .kind = FaultKind::protocol,
          .what = "the target's hidden state before its final norm",
          .source = "MTPLX#207",
          .caught_by = Catcher::compare,
          .where = "hnorm",
          .base = "bf16",
          .protocol =
              [](ProtocolMistake& m) {
                const Vector& weight = m.target_norm;
                change_hidden(m.input, [&](std::span<float> row) {
                  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(row[i] / weight[i]);
                });
              }},
    Fault{.id = "hidden-normed-twice",
          .row = "P01",
          .kind = FaultKind::protocol,
          .what = "the final norm applied twice",
          .source = "llama.cpp#24025",
          .caught_by = Catcher::compare,
          .where = "hnorm",
          .base = "bf16",
          .protocol =
              [](ProtocolMistake& m) {
                const Vector& weight = m.target_norm;
                change_hidden(m.input, [&](std::span<float> row) {
                  double square = 0;
                  for (const float value : row) square += static_cast<double>(value) * value;
                  const double scale = 1 / std::sqrt(square / static_cast<double>(row.size()) + 1e-5);
                  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(row[i] * scale * weight[i]);
                });
              }},
    Fault{.id = "stale-hidden",
          .row = "P07",
          .kind = FaultKind::protocol,
          .what = "the second step gets the target's hidden state again",
          .source = "LightLLM#1402",
          .caught_by = Catcher::compare,
          .where = "step1.hnorm",
          .base = "bf16",
          .protocol = [](ProtocolMistake& m) { m.steps.stale_hidden = true; }},
    Fault{.id = "unnormed-hidden",
          .row = "P07",
          .kind = FaultKind::protocol,
          .what = "the second step gets residual2 instead of final_layernorm",
          .source = "LightLLM#1402",
          .caught_by = Catcher::compare,
          .where = "step1.hnorm",
          .base = "bf16",
          .protocol = [](ProtocolMistake& m) { m.steps.unnormed_hidden = true; }},
    Fault{.id = "position-not-advanced",
          .row = "P05",
          .kind = FaultKind::protocol,
          .what = "the second step at the first one's position",
          .source = "vllm#47920",
          .caught_by = Catcher::compare,
          .where = "step1.q_rope",
          .base = "bf16",
          .protocol = [](ProtocolMistake& m) { m.steps.position_not_advanced = true; }},
    Fault{.id = "token-not-advanced",
          .row = "",
          .kind = FaultKind::protocol,
          .what = "the second step gets the first one's token",
          .source = "HYV4MTP",
          .caught_by = Catcher::compare,
          .where = "step1.embed_masked",
          .base = "bf16",
          .protocol = [](ProtocolMistake& m) { m.steps.token_not_advanced = true; }},
    Fault{.id = "no-rollback",
          .row = "P05",
          .kind = FaultKind::protocol,
          .what = "a rejected row stays in the caches",
          .source = "vllm#47920",
          .caught_by = Catcher::compare,
          .where = "step1.indexer_scores",
          .base = "bf16",
          .protocol = [](ProtocolMistake& m) { m.steps.no_rollback = true; }},
    Fault{.id = "topk-skip-stuck",
          .row = "A07",
          .kind = FaultKind::protocol,
          .what = "the second step reads the buffer's first rows: not compacted, the skip flag stuck",
          .source = "vllm#47238",
          .caught_by = Catcher::compare,
          .where = "step1.topk_indices",
          .base = "bf16",
          .protocol = [](ProtocolMistake& m) { m.steps.skip_stuck = true; }},
};

}  // namespace

std::span<const Fault> protocol_faults() { return kProtocolFaults; }

}  // namespace mtpcheck
