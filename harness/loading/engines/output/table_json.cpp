#include "harness/loading/engines/output/table_json.h"

#include <nlohmann/json.hpp>

#include "harness/loading/audit/output/audit_json.h"
#include "harness/loading/engines/output/table_text.h"

namespace mtpcheck {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson pair_json(const EngineTable& table, const EnginePair& pair) {
  return OrderedJson::array({table.engines[pair.first], table.engines[pair.second]});
}

OrderedJson cell_json(const EngineTable& table, const EngineRow& row, std::size_t engine, const LoadPlan& plan) {
  const EngineCell& cell = row.cells[engine];
  OrderedJson json = {
      {"engine", table.engines[engine]}, {"parameters", OrderedJson::array()}, {"status", to_string(cell.status)}};
  for (const auto index : row.parameters.parameters[engine]) json["parameters"].push_back(plan.parameters[index].name);
  const bool gap = cell.status == CellStatus::partial || cell.status == CellStatus::unassigned;
  json["says"] = nullptr;
  if (gap) json["says"] = to_string(cell.voice);
  json["elements"] = cell.elements;
  json["written"] = cell.written;
  return json;
}

OrderedJson row_json(const EngineTable& table, const EngineRow& row, std::span<const EngineAudit> audits) {
  OrderedJson json = {
      {"name", row.parameters.name}, {"layer", row.parameters.layer}, {"engines", OrderedJson::array()}};
  for (std::size_t i = 0; i < audits.size(); ++i)
    json["engines"].push_back(cell_json(table, row, i, *audits[i].audit->plan));
  json["relations"] = OrderedJson::array();
  for (const RowRelation& each : row.relations) {
    json["relations"].push_back({{"between", pair_json(table, each.between)},
                                 {"relation", to_string(each.relation)},
                                 {"same", each.agreement.same},
                                 {"different", each.agreement.different},
                                 {"only_first", each.agreement.only_first},
                                 {"only_second", each.agreement.only_second},
                                 {"neither", each.agreement.neither}});
  }
  return json;
}

OrderedJson defect_json(const EngineTable& table, const Defect& defect, std::span<const EngineAudit> audits) {
  OrderedJson json = {{"id", defect.id}, {"severity", to_string(defect.severity)}, {"subject", defect.subject}};
  json["engines"] = OrderedJson::array();
  for (std::size_t i = 0; i < audits.size(); ++i) {
    OrderedJson engine = {
        {"engine", table.engines[i]}, {"verdict", in_words(defect, i, *audits[i].audit)}, {"finding", nullptr}};
    if (defect.findings[i]) engine["finding"] = to_json(*defect.findings[i]);
    json["engines"].push_back(std::move(engine));
  }
  return json;
}

}  // namespace

OrderedJson to_json(const EngineTable& table, std::span<const EngineAudit> audits) {
  OrderedJson json = {{"engines", table.engines}, {"parameters", OrderedJson::array()}};
  for (const EngineRow& row : table.rows) json["parameters"].push_back(row_json(table, row, audits));
  json["defects"] = OrderedJson::array();
  for (const Defect& defect : table.defects) json["defects"].push_back(defect_json(table, defect, audits));
  json["heads"] = OrderedJson::array();
  for (const HeadRelation& heads : table.heads) {
    json["heads"].push_back(
        {{"between", pair_json(table, heads.between)}, {"verdict", to_string(heads.verdict)}, {"why", heads.why}});
  }
  return json;
}

}  // namespace mtpcheck
