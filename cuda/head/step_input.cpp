#include "cuda/head/step_input.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/kernels/numeric/rows.h"
#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

Buffer<__nv_bfloat16> upload_rows(Stream stream, const Tensor& tensor, int width) {
  const auto bits = bf16_rows_of(tensor, width);
  Buffer<__nv_bfloat16> out(bits.size());
  upload_bytes(stream, out.data(), bits.data(), bits.size() * sizeof(std::uint16_t));
  return out;
}

std::vector<std::int32_t> narrowed(const std::vector<std::int64_t>& values, const char* what) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] > INT32_MAX) throw input_error(fmt::format("row {}: {} {} is beyond 2^31", i, what, values[i]));
    out.push_back(static_cast<std::int32_t>(values[i]));
  }
  return out;
}

void check_choice(const std::vector<std::int32_t>& choice, std::size_t row, int most, int limit, const char* what) {
  const bool inside = std::all_of(choice.begin(), choice.end(), [&](int i) { return i >= 0 && i < limit; });
  if (inside && choice.size() <= static_cast<std::size_t>(most)) return;
  throw input_error(
      fmt::format("row {} is forced to {} {}; at most {} of {} can be", row, choice.size(), what, most, limit));
}

}  // namespace

std::vector<std::uint16_t> bf16_rows_of(const Tensor& tensor, int width) {
  const auto values = to_f32(tensor.view());
  const auto stride = static_cast<std::size_t>(row_stride(width));
  const std::size_t rows = values.size() / static_cast<std::size_t>(width);
  std::vector<std::uint16_t> bits(rows * stride, 0);
  for (std::size_t r = 0; r < rows; ++r) {
    const auto* const from = values.data() + r * static_cast<std::size_t>(width);
    std::transform(from, from + width, bits.data() + r * stride, f32_to_bf16);
  }
  return bits;
}

DraftStart draft_start(const HeadInput& last, const HeadShape& shape) {
  return {narrowed(last.input_ids, "token"), narrowed(last.positions, "position"),
          bf16_rows_of(last.hidden_states, shape.hidden)};
}

StepInput::StepInput(Stream stream, const HeadShape& shape, const HeadInput& input, const Selections* forced,
                     const std::vector<SequenceStep>& sequences, const LayerCache& cache) {
  rows_.tokens = static_cast<int>(input.tokens());
  place_rows(stream, sequences, cache);
  positions_ = Buffer<std::int32_t>(stream, narrowed(input.positions, "position"));
  rows_.positions = positions_.data();
  hidden_states_ = upload_rows(stream, input.hidden_states, shape.hidden);
  rows_.hidden_states = hidden_states_.data();
  if (input.inputs_embeds.bytes.empty()) {
    ids_ = Buffer<std::int32_t>(stream, narrowed(input.input_ids, "token"));
    rows_.ids = ids_.data();
  } else {
    inputs_embeds_ = upload_rows(stream, input.inputs_embeds, shape.hidden);
    rows_.inputs_embeds = inputs_embeds_.data();
  }
  if (forced != nullptr) upload_forced(stream, shape, *forced);
}

StepInput::StepInput(Stream stream, const HeadShape& shape, const DeviceInput& input, const Selections* forced,
                     const std::vector<SequenceStep>& sequences, const LayerCache& cache) {
  rows_ = {.tokens = input.tokens(),
           .ids = input.ids,
           .positions = input.positions,
           .hidden_states = input.hidden_states,
           .inputs_embeds = input.inputs_embeds};
  place_rows(stream, sequences, cache);
  if (forced != nullptr) upload_forced(stream, shape, *forced);
  wait_for(stream, input.produced_on);
}

void StepInput::place_rows(Stream stream, const std::vector<SequenceStep>& sequences, const LayerCache& cache) {
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> bases;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const int base = cache.base(static_cast<int>(s));
    for (int i = 0; i < sequences[s].count; ++i) {
      rows.push_back(base + sequences[s].cached + i);
      bases.push_back(base);
      counts_.push_back(sequences[s].cached + i + 1);
    }
    if (sequences[s].count > 0) rows_.max_keys = std::max(rows_.max_keys, sequences[s].keys());
  }
  cache_rows_ = Buffer<std::int32_t>(stream, rows);
  key_bases_ = Buffer<std::int32_t>(stream, bases);
  key_counts_ = Buffer<std::int32_t>(stream, counts_);
  rows_.cache_rows = cache_rows_.data();
  rows_.key_bases = key_bases_.data();
  rows_.key_counts = key_counts_.data();
}

void StepInput::upload_forced(Stream stream, const HeadShape& shape, const Selections& forced) {
  const auto tokens = static_cast<std::size_t>(rows_.tokens);
  const auto check_rows = [&](std::size_t rows, const char* what) {
    if (rows == tokens) return;
    throw input_error(fmt::format("{} rows of forced {} for a batch of {}", rows, what, tokens));
  };
  if (!forced.topk_indices.empty() && shape.sparse()) {
    check_rows(forced.topk_indices.size(), "keys");
    std::vector<std::int32_t> keys(tokens * shape.top_k, -1);
    for (std::size_t row = 0; row < tokens; ++row) {
      std::vector<std::int32_t> choice = forced.topk_indices[row];
      std::erase_if(choice, [](int key) { return key < 0; });
      check_choice(choice, row, shape.top_k, counts_[row], "keys");
      std::sort(choice.rbegin(), choice.rend());
      std::copy(choice.begin(), choice.end(), keys.begin() + static_cast<std::ptrdiff_t>(row * shape.top_k));
    }
    forced_keys_ = Buffer<std::int32_t>(stream, keys);
    rows_.forced_keys = forced_keys_.data();
  }
  if (!forced.topk_experts.empty() && shape.experts > 0) {
    check_rows(forced.topk_experts.size(), "experts");
    std::vector<std::int32_t> experts;
    for (std::size_t row = 0; row < tokens; ++row) {
      const auto& choice = forced.topk_experts[row];
      check_choice(choice, row, shape.used_experts, shape.experts, "experts");
      if (choice.size() != static_cast<std::size_t>(shape.used_experts)) {
        throw input_error(
            fmt::format("row {} is forced to {} experts instead of {}", row, choice.size(), shape.used_experts));
      }
      experts.insert(experts.end(), choice.begin(), choice.end());
    }
    forced_experts_ = Buffer<std::int32_t>(stream, experts);
    rows_.forced_experts = forced_experts_.data();
  }
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
