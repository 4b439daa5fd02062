#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <set>
#include <vector>

#include "harness/loading/audit/rules/rules.h"
#include "harness/loading/audit/words/pieces.h"

namespace mtpcheck {

namespace {

bool is_byte(Dtype dtype) { return dtype == Dtype::u8 || dtype == Dtype::i8; }

/// Modules that the engine never quantises, whatever the config says.
bool never_quantised(const std::string& parameter) {
  return std::ranges::any_of(std::array{"eh_proj", "mlp.gate.", "wk_weights_proj"},
                             [&](const char* module) { return parameter.find(module) != std::string::npos; });
}

struct Verdict {
  std::string id;
  Cause cause = Cause::checkpoint;
  std::string expected;
};

/// A weight's numbers change unless its dtype is its parameter's, or both hold plain numbers.
std::optional<Verdict> judge_weight(const Parameter& parameter, Dtype source) {
  if (source == parameter.dtype) return std::nullopt;
  if (is_plain_float(source) && is_plain_float(parameter.dtype)) return std::nullopt;
  if (is_fp8(source) && is_plain_float(parameter.dtype)) {
    return Verdict{"quant-contradiction", never_quantised(parameter.name) ? Cause::loader : Cause::checkpoint,
                   "numbers multiplied by their scales"};
  }
  return Verdict{"dtype-contradiction", Cause::checkpoint, std::string(torch_name(parameter.dtype))};
}

/// Every value is a power of two, or there are no bytes to look at.
std::optional<bool> powers_of_two(const TensorView& tensor) {
  if (tensor.bytes.empty()) return std::nullopt;
  return std::ranges::all_of(to_f64(tensor), [](double value) {
    constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52) - 1;
    return value > 0 && (std::bit_cast<std::uint64_t>(value) & kMantissa) == 0;
  });
}

std::optional<Verdict> judge_scale(const Parameter& parameter, Dtype source, const TensorView& tensor) {
  if (source == parameter.dtype || (is_plain_float(source) && is_plain_float(parameter.dtype))) return std::nullopt;
  if (source == Dtype::f8_e8m0 && is_plain_float(parameter.dtype)) return std::nullopt;
  if (is_plain_float(source) && parameter.dtype == Dtype::f8_e8m0) {
    if (powers_of_two(tensor).value_or(true)) return std::nullopt;
    return Verdict{"scale-format", Cause::checkpoint, "powers of two, since the parameter holds nothing else"};
  }
  const bool exponents = is_byte(source) || source == Dtype::f8_e8m0;
  return Verdict{"scale-format", Cause::loader,
                 exponents ? "exponents decoded by their bits" : std::string(torch_name(parameter.dtype))};
}

std::optional<Verdict> judge(const Parameter& parameter, const Write& write, const TensorView& tensor) {
  if (write.conversion.kind != Conversion::Kind::number) return std::nullopt;
  switch (parameter.role) {
    case Role::scale:
    case Role::global_scale:
    case Role::input_scale:
      return judge_scale(parameter, write.conversion.read_as, tensor);
    case Role::kv_scale:
      return std::nullopt;
    default:
      return judge_weight(parameter, write.conversion.read_as);
  }
}

/// Slices of one parameter that suffer the same.
struct Converted {
  Verdict verdict;
  Dtype source = Dtype::bf16;
  std::vector<std::uint32_t> tensors;
  std::vector<Box> boxes;
};

/// The parameter's converted slices, those of one kind together: 256 experts are told in one line.
std::vector<Converted> converted_of(const AuditView& view, std::uint32_t index) {
  std::vector<Converted> kinds;
  const Parameter& parameter = view.plan->parameters[index];
  for (const VisibleSlice& slice : (*view.coverage)[index].visible) {
    const Write& write = view.plan->writes[slice.write];
    auto verdict = judge(parameter, write, view.tensor(write.tensor));
    if (!verdict) continue;
    const Dtype source = write.conversion.read_as;
    auto kind = std::ranges::find_if(
        kinds, [&](const Converted& other) { return other.verdict.id == verdict->id && other.source == source; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {std::move(*verdict), source, {}, {}});
    if (std::ranges::count(kind->tensors, write.tensor) == 0) kind->tensors.push_back(write.tensor);
    kind->boxes.push_back(slice.box);
  }
  return kinds;
}

void add_converted(const AuditView& view, std::vector<Finding>& findings) {
  for (std::uint32_t p = 0; p < view.plan->parameters.size(); ++p) {
    const Parameter& parameter = view.plan->parameters[p];
    for (const Converted& kind : converted_of(view, p)) {
      const bool one = kind.tensors.size() == 1;
      const TensorView& first = view.tensor(kind.tensors.front());
      const std::string slices = in_words(parameter, joined(kind.boxes));
      const std::string which =
          one ? std::string{} : fmt::format(" ({}, from {} tensors)", slices, kind.tensors.size());
      const bool unscaled = kind.verdict.id == "quant-contradiction";
      findings.push_back({kind.verdict.id, Severity::error, kind.verdict.cause, one ? first.name : parameter.name,
                          unscaled
                              ? fmt::format("{} numbers are taken without their scales into {} ({}){}",
                                            torch_name(kind.source), parameter.name, torch_name(parameter.dtype), which)
                              : fmt::format("{} is converted as numbers to {} in {}{}", torch_name(kind.source),
                                            torch_name(parameter.dtype), parameter.name, which),
                          kind.verdict.expected, view.said_of_tensor(kind.tensors.front())});
    }
  }
}

/// Sinks that a short tensor leaves to the engine's own constant.
void add_filled(const AuditView& view, std::vector<Finding>& findings) {
  for (std::uint32_t p = 0; p < view.plan->parameters.size(); ++p) {
    const Parameter& parameter = view.plan->parameters[p];
    if (parameter.sharding == Sharding::embedding) continue;  // padding of the vocabulary
    for (const VisibleSlice& slice : (*view.coverage)[p].visible) {
      const Write& write = view.plan->writes[slice.write];
      const TensorView& tensor = view.tensor(write.tensor);
      if (write.conversion.kind != Conversion::Kind::fill || parameter.name.find("head.weight") != std::string::npos) {
        continue;
      }
      findings.push_back({"partial", Severity::error, Cause::checkpoint, parameter.name,
                          fmt::format("{} is filled with {} instead: {} is {}", in_words(parameter, slice.box),
                                      write.conversion.constant, tensor.name, kind_of(tensor)),
                          "every element from the checkpoint", ""});
    }
  }
}

/// True when both grids give every element of a weight the same cell.
bool same_cells(const MeantWeight& weight, const Conversion& conversion) {
  const ScaleGrid& grid = weight.grid;
  for (std::size_t row = 0; row < weight.rows; ++row) {
    if ((grid.first_row + row) / grid.block_rows != row / conversion.group_rows) return false;
  }
  for (std::size_t col = 0; col < weight.cols; ++col) {
    if (col / grid.block_cols != col / conversion.group_cols) return false;
  }
  return true;
}

/// The engine's own dequantisation, against the grid that the files mean.
void add_other_grids(const AuditView& view, std::vector<Finding>& findings) {
  std::set<std::uint32_t> told;
  for (const Write& write : view.plan->writes) {
    if (write.conversion.kind != Conversion::Kind::dequantise || !told.insert(write.tensor).second) continue;
    const auto meant = std::ranges::find(view.meaning.weights, write.tensor, &MeantWeight::tensor);
    if (meant == view.meaning.weights.end() || meant->scale != write.conversion.scale_tensor) continue;
    const bool same_bits = meant->grid.read_as == write.conversion.scale_read_as;
    if (same_bits && same_cells(*meant, write.conversion)) continue;
    findings.push_back({"scale-format", Severity::error, Cause::loader, view.tensor(write.tensor).name,
                        fmt::format("decoded with blocks of {}×{} and scales read as {}", write.conversion.group_rows,
                                    write.conversion.group_cols, torch_name(write.conversion.scale_read_as)),
                        fmt::format("blocks of {}×{}, scales {}", meant->grid.block_rows, meant->grid.block_cols,
                                    torch_name(meant->grid.read_as)),
                        view.said_of_tensor(write.tensor)});
  }
}

}  // namespace

void add_conversion_findings(const AuditView& view, std::vector<Finding>& findings) {
  if (view.plan == nullptr || view.plan->refusal) return;
  add_converted(view, findings);
  add_filled(view, findings);
  add_other_grids(view, findings);
}

}  // namespace mtpcheck
