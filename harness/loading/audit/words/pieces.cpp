#include "harness/loading/audit/words/pieces.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string_view>

namespace mtpcheck {

namespace {

constexpr std::array<std::string_view, 7> kSuffixes{
    ".weight_scale_inv", ".weight_scale_2", ".weight_scale", ".input_scale", ".weight", "_weight", ".scale"};

/// The module of a parameter within its layer: "self_attn.fused_qkv_a_proj", "enorm", "lm_head".
std::string module_of(const std::string& name) {
  std::string module = name;
  for (const std::string_view anchor : {"self_attn.", "mlp.", "model.layers."}) {
    const auto at = module.find(anchor);
    if (at == std::string::npos) continue;
    module.erase(0, anchor == "model.layers." ? module.find('.', at + anchor.size()) + 1 : at);
    break;
  }
  for (const std::string_view prefix : {"mtp_block.", "model.decoder.", "decoder.", "model."}) {
    if (module.starts_with(prefix)) module.erase(0, prefix.size());
  }
  return module;
}

bool is_routed(const Parameter& parameter) { return !parameter.experts.empty(); }

/// "w13", "w2" of an expert parameter.
bool is_down(const Parameter& parameter) {
  const auto at = parameter.name.rfind('.');
  return parameter.name.substr(at + 1).starts_with("w2");
}

std::string expert_words(const Parameter& parameter, Interval experts) {
  std::vector<std::uint32_t> ids(parameter.experts.begin() + static_cast<std::ptrdiff_t>(experts.begin),
                                 parameter.experts.begin() + static_cast<std::ptrdiff_t>(experts.end));
  if (ids.size() == 1) return fmt::format("expert {}", ids[0]);
  const bool run = ids.back() - ids.front() + 1 == ids.size();
  if (run) return fmt::format("experts {} to {}", ids.front(), ids.back());
  return fmt::format("experts {}", fmt::join(ids, ", "));
}

std::string range_words(const char* what, Interval range) {
  if (range.size() == 1) return fmt::format("{} {}", what, range.begin);
  return fmt::format("{}s {} to {}", what, range.begin, range.end - 1);
}

std::string part_words(const Parameter& parameter, const Part& part) {
  if (part.name == "gate_proj") return is_routed(parameter) ? "gate half (w1)" : "gate half";
  if (part.name == "up_proj") return is_routed(parameter) ? "up half (w3)" : "up half";
  return part.name;
}

}  // namespace

std::string weight_key(const std::string& name) {
  if (name == "mlp.expert_bias") return "mlp.gate.e_score_correction_bias";
  if (name == "shared_head.head.weight" || name == "shared_head.head" || name == "lm_head.weight") return "lm_head";
  if (name == "shared_head.norm.weight") return "final_layernorm";
  for (const std::string_view suffix : kSuffixes) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

std::vector<Piece> pieces_of(const Parameter& parameter) {
  const std::string module = module_of(parameter.name);
  const Box all = whole(parameter.extents);
  std::vector<Piece> pieces;
  if (is_routed(parameter)) {
    for (std::size_t slot = 0; slot < parameter.experts.size(); ++slot) {
      const std::string stem = fmt::format("mlp.experts.{}.", parameter.experts[slot]);
      const Interval experts{slot, slot + 1};
      for (const Part& part : parameter.parts) pieces.push_back({{experts, part.rows, all.cols}, stem + part.name});
      if (parameter.parts.empty()) {
        pieces.push_back({{experts, all.rows, all.cols}, stem + (is_down(parameter) ? "down_proj" : "gate_proj")});
      }
    }
    return pieces;
  }
  const std::string key = weight_key(module);
  if (parameter.parts.size() < 2) return {{all, key}};
  const std::string stem = key.substr(0, key.rfind('.') + 1);
  for (const Part& part : parameter.parts) pieces.push_back({{all.experts, part.rows, all.cols}, stem + part.name});
  return pieces;
}

std::string in_words(const Parameter& parameter, const Box& box) {
  const Box all = whole(parameter.extents);
  std::vector<std::string> words;
  if (is_routed(parameter)) {
    if (!(box.experts == all.experts) || all.experts.size() == 1) words.push_back(expert_words(parameter, box.experts));
  }
  if (!(box.rows == all.rows)) {
    bool told = false;
    for (const Part& part : parameter.parts) {
      if (box.rows == part.rows) {
        words.push_back(part_words(parameter, part));
        told = true;
      } else if (part.rows.begin <= box.rows.begin && box.rows.end <= part.rows.end) {
        words.push_back(part_words(parameter, part));
        words.push_back(range_words("row", {box.rows.begin - part.rows.begin, box.rows.end - part.rows.begin}));
        told = true;
      }
    }
    if (!told) words.push_back(range_words("row", box.rows));
  }
  if (!(box.cols == all.cols)) words.push_back(range_words("column", box.cols));
  if (words.empty()) return "all";
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string in_words(const Parameter& parameter, const std::vector<Box>& boxes, std::size_t limit) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < boxes.size() && i < limit; ++i) words.push_back(in_words(parameter, boxes[i]));
  if (boxes.size() > limit) words.push_back(fmt::format("and {} more", boxes.size() - limit));
  return fmt::format("{}", fmt::join(words, "; "));
}

}  // namespace mtpcheck
