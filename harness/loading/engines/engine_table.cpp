#include "harness/loading/engines/engine_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "harness/loading/engines/relations.h"

namespace mtpcheck {
namespace {

EngineSide side_of(const EngineAudit& engine, const HeadConfig& config) {
  return {&*engine.audit->plan, &engine.audit->coverage,
          held_weights(*engine.audit->plan, config, engine.loader->row_turn)};
}

Voice voice_of_gap(const LoadPlan& plan, const std::vector<std::uint32_t>& parameters) {
  const auto among = [&](const std::vector<std::uint32_t>& told) {
    return std::ranges::any_of(parameters, [&](std::uint32_t index) { return std::ranges::count(told, index) != 0; });
  };
  if (plan.exception) {
    const bool strict = plan.exception->where == EngineException::Where::strict_check;
    if (!strict || among(plan.exception->parameters)) return Voice::raises;
  }
  return among(plan.unassigned) ? Voice::warns : Voice::silent;
}

EngineCell cell_of(const Audit& audit, const std::vector<std::uint32_t>& parameters) {
  EngineCell cell;
  if (audit.plan->refusal) {
    cell.status = CellStatus::refused;
    cell.voice = Voice::refuses;
    return cell;
  }
  if (parameters.empty()) return cell;
  for (const auto index : parameters) {
    cell.elements += audit.coverage[index].elements;
    cell.written += audit.coverage[index].written;
  }
  const auto all = [&](ParameterStatus status) {
    return std::ranges::all_of(parameters, [&](std::uint32_t index) { return audit.statuses[index] == status; });
  };
  if (cell.written == cell.elements) {
    cell.status = CellStatus::loaded;
  } else if (all(ParameterStatus::runtime_default)) {
    const bool of_target = audit.plan->parameters[parameters.front()].origin == Origin::target;
    cell.status = of_target ? CellStatus::shared : CellStatus::by_default;
  } else {
    cell.status = cell.written > 0 ? CellStatus::partial : CellStatus::unassigned;
    cell.voice = voice_of_gap(*audit.plan, parameters);
  }
  return cell;
}

/// Why an engine ends without a head; empty where it has one.
std::string stop_of(const std::string& engine, const LoadPlan& plan, const HeaderSet& headers) {
  if (plan.refusal) return fmt::format("{} refuses {}", engine, plan.refusal->config_key);
  if (!plan.exception) return {};
  if (plan.exception->tensor == kNone) return fmt::format("{} raises after the load", engine);
  return fmt::format("{} raises at {}", engine, headers.tensors[plan.exception->tensor].name);
}

/// The rows' names, after `limit` of them how many more.
std::string first_names(const std::vector<std::string>& names, std::size_t limit = 3) {
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + static_cast<std::ptrdiff_t>(std::min(limit, names.size())));
  std::string text = fmt::format("{}", fmt::join(first, ", "));
  if (names.size() > limit) text += fmt::format(" and {} more", names.size() - limit);
  return text;
}

/// Layers that one of two engines has not.
std::set<std::size_t> layers_of_one(const EngineSide& first, const EngineSide& second) {
  std::set<std::size_t> of_first;
  std::set<std::size_t> of_second;
  for (const auto& [key, held] : first.held) of_first.insert(key.layer);
  for (const auto& [key, held] : second.held) of_second.insert(key.layer);
  std::set<std::size_t> one;
  std::ranges::set_symmetric_difference(of_first, of_second, std::inserter(one, one.end()));
  return one;
}

class Assembly {
 public:
  Assembly(const Checkpoint& checkpoint, const HeadConfig& config, std::span<const EngineAudit> audits)
      : headers_(checkpoint.headers), audits_(audits) {
    for (const EngineAudit& engine : audits) {
      sides_.push_back(side_of(engine, config));
      table_.engines.push_back(engine.audit->plan->engine + " " + engine.audit->plan->version);
    }
  }

  EngineTable table() {
    const auto paired = paired_parameters(sides_);
    for (const PairedParameters& row : paired) add_row(row);
    for (std::size_t first = 0; first < audits_.size(); ++first) {
      for (std::size_t second = first + 1; second < audits_.size(); ++second) add_heads({first, second});
    }
    table_.defects = defects_of(audits_, paired);
    return std::move(table_);
  }

 private:
  void add_row(const PairedParameters& parameters) {
    EngineRow row{parameters, {}, {}};
    for (std::size_t i = 0; i < audits_.size(); ++i) {
      row.cells.push_back(cell_of(*audits_[i].audit, parameters.parameters[i]));
    }
    for (std::size_t first = 0; first < audits_.size(); ++first) {
      for (std::size_t second = first + 1; second < audits_.size(); ++second) {
        row.relations.push_back(relation_of(row, {first, second}, sides_, headers_.tensors));
      }
    }
    table_.rows.push_back(std::move(row));
  }

  std::vector<std::string> rows_with(const EnginePair& pair, std::span<const Relation> relations) const {
    std::vector<std::string> names;
    for (const EngineRow& row : table_.rows) {
      for (const RowRelation& each : row.relations) {
        const bool this_pair = each.between.first == pair.first && each.between.second == pair.second;
        if (this_pair && std::ranges::count(relations, each.relation) != 0) names.push_back(row.parameters.name);
      }
    }
    return names;
  }

  void add_heads(const EnginePair& pair) {
    HeadRelation heads{pair, HeadVerdict::same, ""};
    for (const std::size_t engine : {pair.first, pair.second}) {
      const std::string stop = stop_of(table_.engines[engine], *audits_[engine].audit->plan, headers_);
      if (stop.empty()) continue;
      heads.verdict = HeadVerdict::no_head;
      heads.why += (heads.why.empty() ? "" : "; ") + stop;
    }
    if (heads.verdict != HeadVerdict::no_head) judge(heads);
    table_.heads.push_back(std::move(heads));
  }

  void judge(HeadRelation& heads) const {
    constexpr std::array kDifferent{Relation::differs, Relation::only_first, Relation::only_second};
    constexpr std::array kIncomplete{Relation::incomplete};
    const auto different = rows_with(heads.between, kDifferent);
    const auto incomplete = rows_with(heads.between, kIncomplete);
    if (!different.empty()) {
      heads.verdict = HeadVerdict::different;
      heads.why = first_names(different);
    } else if (!incomplete.empty()) {
      heads.verdict = HeadVerdict::incomplete;
      heads.why = first_names(incomplete);
    } else {
      heads.why = apart(heads.between);
      for (const auto layer : layers_of_one(sides_[heads.between.first], sides_[heads.between.second])) {
        heads.why += fmt::format("{}MTP layer {} is in one of them only", heads.why.empty() ? "" : "; ", layer);
      }
    }
  }

  /// Rows that are amiss in one engine and cannot be compared, since the other has them from the target model.
  std::string apart(const EnginePair& pair) const {
    std::string text;
    for (const EngineRow& row : table_.rows) {
      for (const auto& [gap, other] : {std::pair{pair.first, pair.second}, std::pair{pair.second, pair.first}}) {
        const CellStatus status = row.cells[gap].status;
        if (status != CellStatus::partial && status != CellStatus::unassigned) continue;
        if (row.cells[other].status != CellStatus::shared && row.cells[other].status != CellStatus::absent) continue;
        text += fmt::format("{}{} apart, {} in {}", text.empty() ? "" : "; ", row.parameters.name, to_string(status),
                            table_.engines[gap]);
      }
    }
    return text;
  }

  const HeaderSet& headers_;
  std::span<const EngineAudit> audits_;
  std::vector<EngineSide> sides_;
  EngineTable table_;
};

}  // namespace

std::string_view to_string(CellStatus status) {
  constexpr std::array<std::string_view, 7> kWords{"loaded", "partial", "unassigned", "default",
                                                   "shared", "refused", "–"};
  return kWords[static_cast<std::size_t>(status)];
}

std::string_view to_string(Relation relation) {
  constexpr std::array<std::string_view, 7> kWords{
      "equal", "permuted", "differs", "only the first has it", "only the second has it", "unwritten in both", "–"};
  return kWords[static_cast<std::size_t>(relation)];
}

std::string_view to_string(HeadVerdict verdict) {
  constexpr std::array<std::string_view, 4> kWords{"same head", "different heads", "incomplete in both", "no head"};
  return kWords[static_cast<std::size_t>(verdict)];
}

EngineTable engine_table(const Checkpoint& checkpoint, const HeadConfig& config, std::span<const EngineAudit> audits) {
  return Assembly(checkpoint, config, audits).table();
}

bool passes(const EngineTable& table, std::span<const EngineAudit> audits, Severity limit) {
  const auto sound = [limit](const EngineAudit& engine) { return engine.audit->passes(limit); };
  return std::ranges::all_of(audits, sound) &&
         std::ranges::count(table.heads, HeadVerdict::different, &HeadRelation::verdict) == 0;
}

}  // namespace mtpcheck
