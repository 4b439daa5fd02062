#include "reports/schema/json.h"

#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

#include "reports/record/fields.h"

namespace mtpcheck::reports {
namespace {

using Json = nlohmann::ordered_json;

template <class Record>
void append_fields(Json& to, const Record& record) {
  for (const auto& field : fields<Record>()) {
    const bool is_verdict = field.name == "pass";
    std::visit(
        [&](auto member) {
          const auto& value = record.*member;
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>) {
            if (is_verdict) {
              to["verdict"] = value ? "pass" : "fail";
              return;
            }
          }
          to[std::string(field.name)] = value;
        },
        field.member);
  }
}

template <class Record>
Json object_of(const Record& record) {
  Json json = Json::object();
  append_fields(json, record);
  return json;
}

template <class Record>
Json array_of(const std::vector<Record>& records) {
  Json json = Json::array();
  for (const auto& record : records) json.push_back(object_of(record));
  return json;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json error_object(const ErrorRecord& error) {
  Json json = object_of(error);
  json["reason"] = text_or_null(error.reason);
  return json;
}

Json distribution_object(const DistributionRecord& distribution) {
  Json json = object_of(distribution);
  json["histogram"] = {{"first_decade", kHistogramFirstDecade}, {"counts", distribution.histogram}};
  return json;
}

Json worst_array(const StageRecord& stage) {
  Json json = Json::array();
  for (const auto& element : stage.worst) {
    json.push_back(
        {{"coordinates", element.coordinates}, {"reference", element.reference}, {"candidate", element.candidate}});
  }
  return json;
}

Json stage_object(const StageRecord& stage) {
  Json json = object_of(stage);
  json["reason"] = text_or_null(stage.reason);
  json["likely_cause"] = text_or_null(stage.likely_cause);
  json["dimensions"] = stage.dimensions;
  json["extents"] = stage.extents;
  if (stage.missing) return json;
  const Json cumulative = error_object(stage.cumulative);
  for (const auto& [key, value] : cumulative.items()) {
    if (key != "verdict" && key != "reason") json[key] = value;
  }
  json["cumulative_verdict"] = stage.cumulative.pass ? "pass" : "fail";
  if (stage.replay) json["replay"] = error_object(*stage.replay);
  if (stage.selection) json["selection"] = object_of(*stage.selection);
  if (stage.selection_replay) json["replay"]["selection"] = object_of(*stage.selection_replay);
  if (stage.distribution) json["distribution"] = distribution_object(*stage.distribution);
  if (stage.logits) json["logits"] = object_of(*stage.logits);
  json["worst"] = worst_array(stage);
  return json;
}

Json table_array(const Table& table) {
  Json json = Json::array();
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Json object = Json::object();
    for (const auto& column : table.columns) {
      std::visit([&](const auto& cells) { object[column.name] = cells[row]; }, column.values);
    }
    json.push_back(std::move(object));
  }
  return json;
}

void append_comparison(Json& json, const ComparisonRecord& comparison) {
  json["first_divergent_stage"] = text_or_null(comparison.first_divergent_stage);
  json["first_failing_stage_in_replay"] = text_or_null(comparison.first_failing_stage_in_replay);
  json["tokens"] = comparison.tokens;
  json["sequence_starts"] = comparison.sequence_starts;
  json["tolerance"] = object_of(comparison.tolerance);
  json["notes"] = comparison.notes;
  json["unmatched"] = array_of(comparison.unmatched);
  json["stages"] = Json::array();
  for (const auto& stage : comparison.stages) json["stages"].push_back(stage_object(stage));
}

}  // namespace

nlohmann::ordered_json to_json(const Report& report) {
  Json json = Json::object();
  json["format"] = "mtpcheck report";
  json["schema_version"] = report.schema_version;
  json["verb"] = report.verb;
  json["verdict"] = report.pass ? "pass" : "fail";
  if (report.comparison) append_comparison(json, *report.comparison);
  json["sides"] = Json::object();
  for (const auto& side : report.sides) {
    json["sides"][side.role] = {
        {"head", side.head}, {"dtype", side.dtype}, {"conventions", array_of(side.conventions)}};
  }
  json["findings"] = array_of(report.findings);
  for (const auto& table : report.tables) json["tables"][table.name] = table_array(table);
  json["checkpoint"] = object_of(report.checkpoint);
  json["run"] = object_of(report.run);
  return json;
}

}  // namespace mtpcheck::reports
