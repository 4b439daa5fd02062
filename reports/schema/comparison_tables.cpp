#include "reports/schema/comparison_tables.h"

#include <optional>
#include <string>

#include "reports/schema/rows.h"

namespace mtpcheck::reports {
namespace {

template <class Record>
void append_optional(std::vector<Table>& tables, const std::string& name, const std::string& title,
                     const std::vector<StageRecord>& stages, std::optional<Record> StageRecord::*member) {
  std::vector<OfStage<Record>> rows;
  for (const auto& stage : stages) {
    if (stage.*member) rows.emplace_back(stage.name, *(stage.*member));
  }
  if (!rows.empty()) tables.push_back(table_of(name, title, rows));
}

}  // namespace

std::vector<Table> comparison_tables(const ComparisonRecord& comparison) {
  const auto& stages = comparison.stages;
  std::vector<OfStage<ErrorRecord>> cumulative;
  for (const auto& stage : stages) {
    if (!stage.missing) cumulative.emplace_back(stage.name, stage.cumulative);
  }
  std::vector<Table> tables{
      table_of("stages", "one recorded stage", stages),
      table_of("cumulative", "error of a stage, both heads from the same inputs", cumulative),
  };
  append_optional(tables, "replay", "error of a stage on the candidate's own inputs", stages, &StageRecord::replay);
  append_optional(tables, "selections", "choices of a stage as sets", stages, &StageRecord::selection);
  append_optional(tables, "selections_replay", "choices on the candidate's own inputs, as sets", stages,
                  &StageRecord::selection_replay);
  append_optional(tables, "distributions", "how a stage's errors are distributed", stages, &StageRecord::distribution);
  append_optional(tables, "logits", "logits as distributions over the vocabulary", stages, &StageRecord::logits);
  if (!comparison.unmatched.empty()) {
    tables.push_back(table_of("unmatched", "a tensor or stage without a partner", comparison.unmatched));
  }
  if (!comparison.notes.empty()) {
    tables.push_back({"notes", "what a reader has to know", {{"text", "", comparison.notes}}});
  }
  return tables;
}

}  // namespace mtpcheck::reports
