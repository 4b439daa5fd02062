#include "harness/parity/dump/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace mtpcheck {
namespace {

std::size_t element_bytes(const Tensor& tensor) { return bits_of(tensor.dtype) / 8; }

Fitted unfit(const std::string& problem) { return {{}, {}, problem}; }

Shape without_ones(const Shape& shape) {
  Shape rest;
  std::ranges::copy_if(shape, std::back_inserter(rest), [](std::size_t extent) { return extent != 1; });
  return rest;
}

/// True when both shapes come from one another by merging or splitting neighbouring dimensions: always so for equal
/// numbers of elements as long as the first dimension that is not 1 stays what it is.
bool same_rows(const Shape& a, const Shape& b) {
  const Shape left = without_ones(a);
  const Shape right = without_ones(b);
  return elements_of(a) == elements_of(b) && (left.empty() || right.empty() || left.front() == right.front());
}

bool is_selection(Stage stage) { return info(stage).kind != StageKind::values; }

/// Padded tokens at the end of the first dimension, padded vocabulary at the end of the last one of the logits.
Fitted cut_padding(Stage stage, const Tensor& tensor, const Shape& expected) {
  if (tensor.shape.size() != expected.size() || expected.empty()) return unfit("");
  Tensor rest = tensor;
  std::string done;
  if (rest.shape.front() > expected.front()) {
    done = fmt::format("{} padded rows cut off", rest.shape.front() - expected.front());
    rest = slice(rest, 0, 0, expected.front());
  }
  if (stage == Stage::logits && rest.shape.back() > expected.back()) {
    done += fmt::format("{}{} padded vocabulary entries cut off", done.empty() ? "" : ", ",
                        rest.shape.back() - expected.back());
    rest = slice(rest, rest.shape.size() - 1, 0, expected.back());
  }
  if (rest.shape != expected) return unfit("");
  return {std::move(rest), done, {}};
}

Fitted turn_heads(const Tensor& tensor, const Shape& expected) {
  if (tensor.shape.size() != 3 || expected.size() != 3) return unfit("");
  const Shape turned{tensor.shape[1], tensor.shape[0], tensor.shape[2]};
  if (turned != expected) return unfit("");
  return {permuted(tensor, {1, 0, 2}), "first two dimensions exchanged", {}};
}

/// All extents but this one are equal.
bool can_be_joined(const std::vector<Tensor>& ranks, std::size_t dimension) {
  return std::ranges::all_of(ranks, [&](const Tensor& rank) {
    Shape shape = rank.shape;
    shape[dimension] = ranks.front().shape[dimension];
    return shape == ranks.front().shape;
  });
}

}  // namespace

Tensor slice(const Tensor& tensor, std::size_t dimension, std::size_t first, std::size_t count) {
  Tensor part{tensor.dtype, tensor.shape, {}};
  part.shape[dimension] = count;
  const auto inner = std::accumulate(tensor.shape.begin() + static_cast<std::ptrdiff_t>(dimension) + 1,
                                     tensor.shape.end(), element_bytes(tensor), std::multiplies());
  const std::size_t stride = inner * tensor.shape[dimension];
  const std::size_t outer = stride == 0 ? 0 : tensor.bytes.size() / stride;
  part.bytes.reserve(outer * count * inner);
  for (std::size_t i = 0; i < outer; ++i) {
    const auto from = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(i * stride + first * inner);
    part.bytes.insert(part.bytes.end(), from, from + static_cast<std::ptrdiff_t>(count * inner));
  }
  return part;
}

Tensor permuted(const Tensor& tensor, const std::vector<std::size_t>& order) {
  const std::size_t rank = tensor.shape.size();
  std::vector<std::size_t> strides(rank, 1);
  for (std::size_t d = rank - 1; d-- > 0;) strides[d] = strides[d + 1] * tensor.shape[d + 1];
  Tensor result = make_tensor(tensor.dtype, {});
  for (const std::size_t from : order) result.shape.push_back(tensor.shape[from]);
  const std::size_t size = element_bytes(tensor);
  result.bytes.resize(tensor.bytes.size());
  std::vector<std::size_t> at(rank, 0);
  for (std::size_t i = 0; i < tensor.elements(); ++i) {
    std::size_t from = 0;
    for (std::size_t d = 0; d < rank; ++d) from += at[d] * strides[order[d]];
    std::memcpy(result.bytes.data() + i * size, tensor.bytes.data() + from * size, size);
    for (std::size_t d = rank; d-- > 0;) {
      if (++at[d] < result.shape[d]) break;
      at[d] = 0;
    }
  }
  return result;
}

Tensor joined(const std::vector<Tensor>& parts, std::size_t dimension) {
  Tensor whole{parts.front().dtype, parts.front().shape, {}};
  whole.shape[dimension] = 0;
  std::vector<std::size_t> runs;  // bytes of a part for each index of the dimensions before
  for (const auto& part : parts) {
    whole.shape[dimension] += part.shape[dimension];
    runs.push_back(std::accumulate(part.shape.begin() + static_cast<std::ptrdiff_t>(dimension), part.shape.end(),
                                   element_bytes(part), std::multiplies()));
  }
  const std::size_t outer = runs.front() == 0 ? 0 : parts.front().bytes.size() / runs.front();
  for (std::size_t i = 0; i < outer; ++i) {
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const auto from = parts[p].bytes.begin() + static_cast<std::ptrdiff_t>(i * runs[p]);
      whole.bytes.insert(whole.bytes.end(), from, from + static_cast<std::ptrdiff_t>(runs[p]));
    }
  }
  return whole;
}

Fitted fit(Stage stage, const Tensor& tensor, const Shape& expected, const std::vector<std::size_t>& order) {
  if (!order.empty()) {
    if (order.size() != tensor.shape.size()) {
      return unfit(
          fmt::format("the mapping orders {} dimensions, the tensor is {}", order.size(), to_string(tensor.shape)));
    }
    Fitted fitted = fit(stage, permuted(tensor, order), expected, {});
    if (fitted.problem.empty())
      fitted.done = "dimensions in the mapping's order" + (fitted.done.empty() ? "" : ", " + fitted.done);
    return fitted;
  }
  if (is_selection(stage)) {
    Tensor sets = tensor;
    if (sets.shape.size() != 2)
      sets.shape = {expected.front(), tensor.elements() / std::max<std::size_t>(expected.front(), 1)};
    if (sets.elements() != tensor.elements() || sets.shape.front() < expected.front()) {
      return unfit(fmt::format("{} is no list of sets for {} rows", to_string(tensor.shape), expected.front()));
    }
    return {slice(sets, 0, 0, expected.front()), sets.shape == tensor.shape ? "" : "rows of sets", {}};
  }
  if (tensor.shape == expected) return {tensor, {}, {}};
  Fitted turned = turn_heads(tensor, expected);
  if (!turned.tensor.shape.empty()) return turned;
  if (same_rows(tensor.shape, expected)) {
    return {{tensor.dtype, expected, tensor.bytes},
            fmt::format("{} read as {}", to_string(tensor.shape), to_string(expected)),
            {}};
  }
  Fitted cut = cut_padding(stage, tensor, expected);
  if (!cut.tensor.shape.empty()) return cut;
  const Shape dropped = without_ones(tensor.shape);
  if (dropped.size() < tensor.shape.size()) {
    cut = cut_padding(stage, {tensor.dtype, dropped, tensor.bytes}, expected);
    if (!cut.tensor.shape.empty()) return cut;
  }
  return unfit(fmt::format("shape {}, expected {}", to_string(tensor.shape), to_string(expected)));
}

Fitted join_ranks(Stage stage, const std::vector<Tensor>& ranks, const Shape& expected) {
  if (ranks.size() == 1) return {ranks.front(), {}, {}};
  const bool same = std::ranges::all_of(ranks, [&](const Tensor& rank) {
    return rank.dtype == ranks.front().dtype && rank.shape.size() == ranks.front().shape.size();
  });
  if (!same) return unfit("the ranks' tensors are of different types or ranks");
  const bool equal = std::ranges::all_of(ranks, [&](const Tensor& rank) {
    return rank.shape == ranks.front().shape && rank.bytes == ranks.front().bytes;
  });
  if (equal) return {ranks.front(), fmt::format("the same on all {} ranks", ranks.size()), {}};
  std::vector<Fitted> possible;
  for (std::size_t d = 0; d < ranks.front().shape.size(); ++d) {
    if (!can_be_joined(ranks, d)) continue;
    Tensor whole = joined(ranks, d);
    if (d == 0 && whole.shape.front() != expected.front()) continue;  // more rows would be cut off as padding
    const Fitted fitted = fit(stage, whole, expected, {});
    if (!fitted.problem.empty()) continue;
    if (!possible.empty() && possible.front().tensor.bytes == fitted.tensor.bytes) continue;
    possible.push_back({fitted.tensor, fmt::format("{} ranks put together in dimension {}", ranks.size(), d), {}});
  }
  if (possible.size() == 1) return possible.front();
  return unfit(fmt::format("{} ranks hold different tensors {}, which {}", ranks.size(), to_string(ranks.front().shape),
                           possible.empty() ? "do not add up to " + to_string(expected) +
                                                  ": dump it after the ranks' sum, or after their gathering"
                                            : "could be put together in several ways"));
}

}  // namespace mtpcheck
