#include "cuda/device/step_table.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "reference/tensor/error.h"

namespace mtpcheck::cuda {
namespace {

constexpr const char* kNotMeasured = "not measured";

}  // namespace

EagerFigures::EagerFigures(const std::string& file, int keys) {
  std::ifstream in(file);
  if (!in) throw input_error(fmt::format("{}: cannot be read; eager/bench.py --json writes it", file));
  try {
    const auto json = nlohmann::json::parse(in);
    if (json.at("keys").get<int>() != keys) {
      throw input_error(
          fmt::format("{}: measured with {} keys a sequence, expected {}", file, json.at("keys").get<int>(), keys));
    }
    source_ = fmt::format("{} on {}", json.at("torch").get<std::string>(), json.at("device").get<std::string>());
    for (const auto& [storage, measured] : json.items()) {
      if (!measured.is_object()) continue;
      for (const auto& step : measured.at("steps")) {
        figures_.push_back({storage, step.at("tokens").get<int>(), step.at("seconds").get<double>()});
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw input_error(fmt::format("{}: not what eager/bench.py writes: {}", file, error.what()));
  }
}

std::optional<double> EagerFigures::seconds(const std::string& storage, int tokens) const {
  for (const auto& figure : figures_) {
    if (figure.storage == storage && figure.tokens == tokens) return figure.seconds;
  }
  return std::nullopt;
}

std::string step_table(const std::vector<MeasuredStep>& steps) {
  std::string out =
      "| T | ms | floor, ms | of the floor's rate | LibTorch eager, ms | eager / ours |\n|---|---|---|---|---|---|\n";
  for (const auto& step : steps) {
    const auto eager = step.eager_seconds ? fmt::format("{:.3f} | {:.1f}", *step.eager_seconds * 1e3,
                                                        *step.eager_seconds / step.seconds)
                                          : fmt::format("{0} | {0}", kNotMeasured);
    out += fmt::format("| {} | {:.3f} | {:.3f} | {:.0f} % | {} |\n", step.tokens, step.seconds * 1e3,
                       step.floor_seconds * 1e3, 100 * step.floor_seconds / step.seconds, eager);
  }
  return out;
}

nlohmann::json step_json(const std::vector<MeasuredStep>& steps) {
  nlohmann::json out = nlohmann::json::array();
  for (const auto& step : steps) {
    nlohmann::json row{{"tokens", step.tokens},
                       {"seconds", step.seconds},
                       {"floor_seconds", step.floor_seconds},
                       {"of_floor_rate", step.floor_seconds / step.seconds},
                       {"eager_seconds", kNotMeasured},
                       {"eager_over_ours", kNotMeasured}};
    if (step.eager_seconds) {
      row["eager_seconds"] = *step.eager_seconds;
      row["eager_over_ours"] = *step.eager_seconds / step.seconds;
    }
    out.push_back(row);
  }
  return out;
}

}  // namespace mtpcheck::cuda
