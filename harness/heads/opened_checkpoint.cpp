#include "harness/heads/opened_checkpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/loading/carry_out/weights_as_loaded.h"
#include "harness/loading/meaning/meaning.h"
#include "harness/loading/plan/request.h"
#include "harness/loading/rules.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

HeadWeights loaded_weights(const OpenedCheckpoint& opened, const WeightsChoice& choice) {
  const LoaderRules& rules = require_loader(choice.loader);
  const auto& checkpoint = opened.checkpoint;
  const LoadRequest request{.config = opened.config, .config_json = checkpoint.config, .headers = checkpoint.headers};
  return weights_as_loaded(rules.plan(request), request, checkpoint.headers.tensors, choice.fill, choice.seed);
}

/// What a config may say and no head here computes. An engine's own refusals are its rules' (loaded_weights).
void require_computable(const OpenedCheckpoint& opened, const std::string& file) {
  const nlohmann::json& config = opened.checkpoint.config;
  const auto activation = config.find("hidden_act");
  if (activation != config.end() && *activation != "silu") {
    throw input_error(fmt::format("{}: hidden_act is {}; heads compute silu, and nothing else was expected", file,
                                  activation->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }
  if (opened.config.num_nextn_predict_layers == 0) {
    throw input_error(
        fmt::format("{}: num_nextn_predict_layers is 0 or null; a draft head has at least 1 layer", file));
  }
}

}  // namespace

OpenedCheckpoint open_for_heads(const std::filesystem::path& path, const WeightsChoice& choice) {
  OpenedCheckpoint opened;
  opened.checkpoint = open_checkpoint(path);
  const Checkpoint& checkpoint = opened.checkpoint;
  require_sound(checkpoint);
  if (checkpoint.headers_only) {
    throw input_error(fmt::format("{}: holds headers only; a head needs the data", path.string()));
  }
  opened.config = parse_head_config(checkpoint.config, (path / "config.json").string());
  if (!checkpoint.conventions.is_null()) {
    opened.mtpcheck_json = parse_mtpcheck_json(checkpoint.conventions, (path / "mtpcheck.json").string());
  }
  if (choice.as_loaded) {
    opened.weights = loaded_weights(opened, choice);
  } else {
    require_computable(opened, (path / "config.json").string());
    const Meaning meaning = meaning_of(opened.config, checkpoint.config, checkpoint.headers);
    opened.weights = weights_as_meant(meaning, opened.config, checkpoint.headers, checkpoint.storage);
  }
  return opened;
}

Vector target_norm(const OpenedCheckpoint& opened) {
  for (const auto& tensor : opened.checkpoint.headers.tensors) {
    if (tensor.name == "model.norm.weight") return to_f64(tensor);
  }
  return {};
}

}  // namespace mtpcheck
