#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/loading/audit/rules/rules.h"
#include "harness/loading/audit/words/pieces.h"
#include "harness/loading/meaning/mtp_names.h"

namespace mtpcheck {

namespace {

std::size_t count_named(const AuditView& view, std::string_view part) {
  return static_cast<std::size_t>(std::ranges::count_if(view.headers.tensors, [&](const TensorView& tensor) {
    const auto name = mtp_name(tensor.name, view.config.num_hidden_layers);
    return name && name->rest.find(part) != std::string_view::npos;
  }));
}

/// An engine may build an indexer or experts whatever the config says.
bool builds(const AuditView& view, std::string_view part) {
  return view.plan != nullptr && std::ranges::any_of(view.plan->parameters, [part](const Parameter& parameter) {
           return parameter.name.find(part) != std::string::npos;
         });
}

/// The last backbone layer decides what the MTP layer is; the files may hold another kind.
void add_layer_kinds(const AuditView& view, std::vector<Finding>& findings) {
  const auto add = [&](const char* key, std::string_view part, const char* kind, const char* lost) {
    const std::size_t tensors = count_named(view, part);
    if (tensors == 0) return;
    const bool built = builds(view, part);
    findings.push_back(
        {"layer-kind", built ? Severity::info : Severity::error, Cause::checkpoint, key,
         fmt::format("the last backbone layer makes the MTP layer {}, and the files hold {} tensors of {}", kind,
                     tensors, lost),
         fmt::format("a last entry that gives the MTP layer its {}", lost), ""});
  };
  if (!view.config.sparse_attention) {
    add("layer_types", "self_attn.indexer.", "dense in attention", "indexer");
  }
  if (!view.config.sparse_mlp) add("mlp_layer_types", "mlp.experts.", "a dense MLP", "experts");
}

std::string text_of(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

void add_algorithm(const AuditView& view, std::vector<Finding>& findings) {
  const std::string algorithm = text_of(view.config_json, "mtp_quant_algo");
  if (algorithm.empty() || algorithm == "NONE") return;
  const auto quantised = static_cast<std::size_t>(std::ranges::count_if(
      view.meaning.weights, [](const MeantWeight& weight) { return weight.layout != QuantLayout::none; }));
  const bool plain = algorithm == "BF16" || algorithm == "FP16";
  if (plain && quantised > 0) {
    findings.push_back({"quant-contradiction", Severity::error, Cause::checkpoint, "mtp_quant_algo",
                        fmt::format("{}, and {} weights of the MTP layer are quantised", algorithm, quantised),
                        "tensors that are not quantised, or another word", ""});
  } else if (algorithm == "FP8" && quantised == 0 && !view.meaning.weights.empty()) {
    findings.push_back({"quant-contradiction", Severity::error, Cause::checkpoint, "mtp_quant_algo",
                        "FP8, and no weight of the MTP layer is quantised", "quantised tensors, or another word", ""});
  } else if (!plain && algorithm != "FP8") {
    findings.push_back({"unknown-algorithm", Severity::info, Cause::checkpoint, "mtp_quant_algo", algorithm,
                        "FP8, BF16, FP16 or NONE; the layer inherits the backbone's quantisation", ""});
  }
}

/// A pattern's plain part, and the module of the MTP layer that it names; empty where it names none.
std::string excluded_module(const std::string& pattern) {
  std::string plain = pattern;
  for (const std::string_view mark : {"re:", ".*", "*"}) {
    for (auto at = plain.find(mark); at != std::string::npos; at = plain.find(mark)) plain.erase(at, mark.size());
  }
  const auto at = plain.find("mtp_layers.");
  if (at == std::string::npos) return {};
  const auto dot = plain.find('.', at + std::string_view("mtp_layers.").size());
  return dot == std::string::npos ? "" : plain.substr(dot + 1);
}

/// Exclusions that name a module of the MTP layer which the engine quantises nevertheless.
void add_exclusions(const AuditView& view, std::vector<Finding>& findings) {
  const auto config = view.config_json.find("quantization_config");
  if (view.plan == nullptr || view.plan->refusal || config == view.config_json.end() || !config->is_object()) return;
  for (const char* key : {"ignored_layers", "modules_to_not_convert", "exclude_modules", "ignore"}) {
    const auto list = config->find(key);
    if (list == config->end() || !list->is_array()) continue;
    for (const auto& entry : *list) {
      if (!entry.is_string()) continue;
      const std::string module = excluded_module(entry.get<std::string>());
      if (module.empty()) continue;
      const auto quantised = std::ranges::find_if(view.plan->parameters, [&](const Parameter& parameter) {
        const bool fp8 = parameter.dtype == Dtype::f8_e4m3 || parameter.dtype == Dtype::u8;
        return fp8 && parameter.role == Role::weight &&
               std::ranges::any_of(pieces_of(parameter), [&](const Piece& piece) { return piece.weight == module; });
      });
      if (quantised == view.plan->parameters.end()) continue;
      findings.push_back({"exclusion-without-effect", Severity::info, Cause::loader,
                          fmt::format("quantization_config.{}", key),
                          fmt::format("{} is excluded, and {} is {} all the same", entry.get<std::string>(),
                                      quantised->name, torch_name(quantised->dtype)),
                          "a spelling that the engine matches", ""});
    }
  }
}

}  // namespace

void add_config_findings(const AuditView& view, std::vector<Finding>& findings) {
  add_layer_kinds(view, findings);
  add_algorithm(view, findings);
  add_exclusions(view, findings);
}

}  // namespace mtpcheck
