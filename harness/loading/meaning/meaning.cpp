#include "harness/loading/meaning/meaning.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "harness/loading/meaning/declared_quantisation.h"
#include "harness/loading/meaning/logical_weights.h"
#include "harness/loading/meaning/mtp_names.h"

namespace mtpcheck {
namespace {

using Id = MeaningProblem::Id;
using Found = std::vector<std::uint32_t>;  // headers of one name, in read order

class Resolver {
 public:
  Resolver(const HeadConfig& config, const nlohmann::json& config_json, const HeaderSet& headers)
      : config_(config), headers_(headers), declared_(declared_quantisation(config_json)) {
    meaning_.layers = std::max<std::size_t>(config.num_nextn_predict_layers, 1);
    meaning_.uses.assign(headers.tensors.size(), TensorUse::unrelated);
    layers_.resize(meaning_.layers);
    sort_tensors();
  }

  Meaning resolve() && {
    if (no_layer_is_filled()) {
      report_no_weights();
      return std::move(meaning_);
    }
    if (auto embedding = resolve(0, logical_embedding(config_))) meaning_.embed_tokens = std::move(*embedding);
    const std::vector<LogicalWeight> wanted = logical_weights(config_);
    meaning_.weights.reserve(wanted.size() * meaning_.layers);
    for (std::size_t layer = 0; layer < meaning_.layers; ++layer) resolve_layer(layer, wanted);
    for (std::size_t layer = 0; layer < meaning_.layers; ++layer) classify_rest(layer);
    report_extra_layers();
    return std::move(meaning_);
  }

 private:
  using Names = std::unordered_map<std::string_view, Found>;

  void sort_tensors() {
    std::set<std::string_view> listed;
    if (headers_.indexed_files) listed.insert(headers_.indexed_files->begin(), headers_.indexed_files->end());
    for (std::uint32_t i = 0; i < headers_.tensors.size(); ++i) {
      const TensorView& tensor = headers_.tensors[i];
      if (headers_.indexed_files && !listed.contains(tensor.file)) {
        meaning_.uses[i] = TensorUse::not_listed;
      } else if (const auto name = mtp_name(tensor.name, config_.num_hidden_layers)) {
        if (name->layer < layers_.size()) {
          layers_[name->layer][name->rest].push_back(i);
        } else {
          extra_[name->layer].push_back(i);
        }
      } else if (tensor.name.starts_with("lm_head") || tensor.name.starts_with("model.embed_tokens")) {
        shared_[tensor.name].push_back(i);
      }
    }
  }

  bool no_layer_is_filled() const {
    return extra_.empty() && std::ranges::all_of(layers_, [](const Names& names) { return names.empty(); });
  }

  void report(Id id, std::size_t layer, std::string weight, Found tensors, std::string found, std::string expected,
              bool blocks = true) {
    meaning_.problems.push_back(
        {id, layer, std::move(weight), std::move(tensors), std::move(found), std::move(expected), blocks});
  }

  // Once for a tensor that holds many weights.
  void report_once(Id id, std::size_t layer, const std::string& weight, std::uint32_t tensor, std::string found,
                   std::string expected) {
    if (reported_.emplace(id, tensor).second)
      report(id, layer, weight, {tensor}, std::move(found), std::move(expected));
  }

  void report_no_weights() {
    Found near;
    for (std::uint32_t i = 0; i < headers_.tensors.size() && near.size() < 3; ++i) {
      const std::string& name = headers_.tensors[i].name;
      if (name.find("mtp") != std::string::npos || name.find("nextn") != std::string::npos) near.push_back(i);
    }
    const std::string resembling = near.empty() ? "" : ", but some names resemble one";
    report(Id::no_mtp_weights, 0, {}, near, fmt::format("no tensor of an MTP layer{}", resembling),
           fmt::format("model.mtp_layers.N.* or model.layers.{}.*", config_.num_hidden_layers));
  }

  void resolve_layer(std::size_t layer, const std::vector<LogicalWeight>& wanted) {
    if (layers_[layer].empty()) {
      report(Id::layer_not_filled, layer, {}, {}, fmt::format("no tensor of MTP layer {}", layer),
             fmt::format("{} layers, as num_nextn_predict_layers says", meaning_.layers));
      return;
    }
    for (const LogicalWeight& weight : wanted) {
      if (auto meant = resolve(layer, weight)) meaning_.weights.push_back(std::move(*meant));
    }
  }

  const Found* find(std::size_t layer, bool shared, const std::string& name) const {
    const Names& names = shared ? shared_ : layers_[layer];
    const auto found = names.find(name);
    return found == names.end() ? nullptr : &found->second;
  }

  // The same numbers under several names, or twice under one, contradict nothing. Without bytes that is not known.
  bool all_equal(const Found& found) const {
    const TensorView& first = headers_.tensors[found.front()];
    return std::ranges::all_of(found, [&](std::uint32_t i) {
      const TensorView& other = headers_.tensors[i];
      return i == found.front() || (!first.bytes.empty() && other.dtype == first.dtype && other.shape == first.shape &&
                                    std::ranges::equal(other.bytes, first.bytes));
    });
  }

  struct Choice {
    const WeightSource* source = nullptr;
    std::uint32_t tensor = kNoTensor;
  };

  // The tensor that gives a weight; where several do, the one that is read last, and a problem.
  Choice choose(std::size_t layer, const LogicalWeight& weight) {
    Choice choice;
    Found all;
    bool one_form = true;
    for (const WeightSource& source : weight.sources) {
      const Found* const found = find(layer, source.shared, source.tensor);
      if (found == nullptr) continue;
      one_form = one_form && (choice.source == nullptr || (!choice.source->expert && source.part_rows.empty()));
      all.insert(all.end(), found->begin(), found->end());
      if (choice.source == nullptr || found->back() > choice.tensor) choice = {&source, found->back()};
    }
    if (all.size() > 1) {
      for (const std::uint32_t tensor : all) meaning_.uses[tensor] = TensorUse::weight;
      const bool equal = one_form && all_equal(all);
      report(Id::ambiguous, layer, weight.name, all,
             fmt::format("{} tensors{}", all.size(), equal ? ", all equal" : ""), "one", !equal);
    }
    for (auto fallback = weight.fallbacks.begin(); choice.source == nullptr && fallback != weight.fallbacks.end();
         ++fallback) {
      const Found* const found = find(layer, fallback->shared, fallback->tensor);
      if (found != nullptr) choice = {&*fallback, found->back()};
    }
    return choice;
  }

  std::optional<MeantWeight> resolve(std::size_t layer, const LogicalWeight& weight) {
    const Choice choice = choose(layer, weight);
    if (choice.source == nullptr) {
      report(Id::missing, layer, weight.name, {}, "no tensor", weight.sources.front().tensor);
      return std::nullopt;
    }
    meaning_.uses[choice.tensor] = TensorUse::weight;
    MeantWeight meant;
    meant.layer = layer;
    meant.name = weight.name;
    meant.rows = weight.rows;
    meant.cols = std::max<std::size_t>(weight.cols, 1);
    meant.tensor = choice.tensor;
    meant.matrix = weight.matrix;
    meant.vector = weight.vector;
    meant.expert = weight.expert;
    const bool sound = weight.cols == 0 ? check_vector(meant) : place_matrix(meant, *choice.source);
    if (!sound) return std::nullopt;
    return meant;
  }

  bool check_vector(const MeantWeight& meant) {
    const TensorView& tensor = headers_.tensors[meant.tensor];
    if (!is_plain_float(tensor.dtype)) {
      report(Id::dtype_contradiction, meant.layer, meant.name, {meant.tensor}, std::string(torch_name(tensor.dtype)),
             "float32, bfloat16, float16 or float64: vectors are not quantised");
      return false;
    }
    if (tensor.shape != Shape{meant.rows}) {
      report(Id::shape_mismatch, meant.layer, meant.name, {meant.tensor}, to_string(tensor.shape),
             to_string(Shape{meant.rows}));
      return false;
    }
    return true;
  }

  bool place_matrix(MeantWeight& meant, const WeightSource& source) {
    const TensorView& tensor = headers_.tensors[meant.tensor];
    WeightPlace place{source.expert, config_.n_routed_experts, source.part_rows, source.part, meant.cols};
    if (place.part_rows.empty()) place.part_rows = {meant.rows};
    const std::vector<std::uint32_t> scales = scales_of(meant.layer, source);
    if (!check_dtype(meant, tensor, scales)) return false;
    const bool packed = tensor.dtype == Dtype::u8;  // two E2M1 a byte
    if (!check_shape(meant, tensor, place, packed)) return false;
    meant.first_element =
        (source.expert.value_or(0) * place.total_rows() + place.first_row()) * (packed ? meant.cols / 2 : meant.cols);
    return is_plain_float(tensor.dtype) || place_scale(meant, tensor, place, scales);
  }

  std::vector<std::uint32_t> scales_of(std::size_t layer, const WeightSource& source) {
    Found scales;
    for (const std::string_view suffix : kScaleSuffixes) {
      const Found* const found = find(layer, source.shared, source.stem + std::string(suffix));
      if (found != nullptr) scales.insert(scales.end(), found->begin(), found->end());
    }
    for (const std::uint32_t scale : scales) meaning_.uses[scale] = TensorUse::scale;
    return scales;
  }

  bool check_dtype(const MeantWeight& meant, const TensorView& tensor, const Found& scales) {
    if (is_plain_float(tensor.dtype)) {
      for (const std::uint32_t scale : scales) {
        report_once(Id::orphan_scale, meant.layer, meant.name, scale,
                    fmt::format("a scale beside a tensor of {}", torch_name(tensor.dtype)),
                    "none, or a quantised tensor");
      }
      return true;
    }
    const bool packed_fp4 = tensor.dtype == Dtype::f4_e2m1 || (tensor.dtype == Dtype::u8 && !tensor.shape.empty() &&
                                                               tensor.shape.back() * 2 == meant.cols);
    if (is_fp8(tensor.dtype) || packed_fp4) return true;
    report_once(Id::dtype_contradiction, meant.layer, meant.name, meant.tensor, std::string(torch_name(tensor.dtype)),
                "a floating-point dtype, or packed E2M1");
    return false;
  }

  bool check_shape(const MeantWeight& meant, const TensorView& tensor, const WeightPlace& place, bool packed) {
    const std::size_t cols = packed ? meant.cols / 2 : meant.cols;
    Shape expected{place.total_rows(), cols};
    if (place.expert) {
      expected.insert(expected.begin(), place.experts);
      const bool only_the_count = tensor.shape.size() == 3 && tensor.shape[1] == expected[1] && tensor.shape[2] == cols;
      if (only_the_count && tensor.shape[0] != place.experts) {
        report_once(Id::expert_count, meant.layer, meant.name, meant.tensor, fmt::format("{} experts", tensor.shape[0]),
                    fmt::format("{}", place.experts));
        return false;
      }
    }
    if (tensor.shape == expected) return true;
    Shape transposed = expected;
    std::swap(transposed[transposed.size() - 1], transposed[transposed.size() - 2]);
    report_once(Id::shape_mismatch, meant.layer, meant.name, meant.tensor,
                to_string(tensor.shape) + (tensor.shape == transposed ? ", which is transposed" : ""),
                to_string(expected));
    return false;
  }

  bool place_scale(MeantWeight& meant, const TensorView& tensor, const WeightPlace& place, const Found& scales) {
    if (scales.empty()) {
      report_once(Id::scale_missing, meant.layer, meant.name, meant.tensor,
                  fmt::format("{} without a scale", torch_name(tensor.dtype)), "its scale");
      return false;
    }
    if (scales.size() > 1) {
      const bool equal = all_equal(scales);
      report(Id::scale_conflict, meant.layer, meant.name, scales,
             fmt::format("{} scales{}", scales.size(), equal ? ", all equal" : ""), "one", !equal);
      if (!equal) return false;
    }
    const TensorView& scale = headers_.tensors[scales.front()];
    const auto decision = decide_grid(place, tensor.dtype, scale, declared_);
    if (const auto* const fault = std::get_if<std::string>(&decision)) {
      report_once(Id::scale_format, meant.layer, meant.name, scales.front(), *fault,
                  "one a block, one for 32 columns, one a row, or one");
      return false;
    }
    meant.scale = scales.front();
    meant.layout = std::get<GridDecision>(decision).layout;
    meant.grid = std::get<GridDecision>(decision).grid;
    return true;
  }

  // What a layer holds beyond its weights and their scales.
  void classify_rest(std::size_t layer) {
    std::map<std::uint32_t, std::string_view> rest;  // by header: problems come in read order
    for (const auto& [name, found] : layers_[layer]) {
      for (const std::uint32_t tensor : found) {
        if (meaning_.uses[tensor] == TensorUse::unrelated) rest.emplace(tensor, name);
      }
    }
    for (const auto& [tensor, name] : rest) meaning_.uses[tensor] = classify(layer, tensor, name);
  }

  TensorUse classify(std::size_t layer, std::uint32_t tensor, std::string_view name) {
    if (name.starts_with("embed_tokens.") || name.starts_with("shared_head.")) return TensorUse::skipped_copy;
    if (is_kv_scale(name)) return TensorUse::kv_scale;
    if (is_input_scale(name)) return TensorUse::input_scale;
    if (name.ends_with("weight_scale_2")) return TensorUse::scale;  // the second level of NVFP4
    std::string_view beyond = name;
    if (beyond.starts_with("mlp.experts.")) {
      beyond.remove_prefix(std::string_view("mlp.experts.").size());
      std::size_t expert = 0;
      const auto [end, error] = std::from_chars(beyond.data(), beyond.data() + beyond.size(), expert);
      if (error == std::errc{} && expert >= config_.n_routed_experts) {
        report(Id::expert_count, layer, {}, {tensor}, fmt::format("an expert beyond the last ({})", name),
               fmt::format("{} experts", config_.n_routed_experts), false);
        return TensorUse::unknown;
      }
    }
    if (const auto stem = stem_of_scale(name)) {
      report(Id::orphan_scale, layer, std::string(*stem), {tensor}, "a scale without its tensor", "both, or neither",
             false);
      return TensorUse::scale;
    }
    report(Id::unknown_tensor, layer, {}, {tensor}, std::string(name), "a weight of the head", false);
    return TensorUse::unknown;
  }

  void report_extra_layers() {
    for (const auto& [layer, tensors] : extra_) {
      for (const std::uint32_t tensor : tensors) meaning_.uses[tensor] = TensorUse::unknown;
      report(Id::extra_layer, layer, {}, {tensors.front()},
             fmt::format("{} tensors of MTP layer {}", tensors.size(), layer),
             fmt::format("{} layers, as num_nextn_predict_layers says", config_.num_nextn_predict_layers), false);
    }
  }

  const HeadConfig& config_;
  const HeaderSet& headers_;
  DeclaredQuantisation declared_;
  std::vector<Names> layers_;           // of each declared MTP layer, by the name within it
  Names shared_;                        // lm_head and model.embed_tokens
  std::map<std::size_t, Found> extra_;  // layers beyond the declared ones
  std::set<std::pair<Id, std::uint32_t>> reported_;
  Meaning meaning_;
};

}  // namespace

Meaning meaning_of(const HeadConfig& config, const nlohmann::json& config_json, const HeaderSet& headers) {
  return Resolver(config, config_json, headers).resolve();
}

}  // namespace mtpcheck
