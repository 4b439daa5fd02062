#include "harness/loading/engines/output/table_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/loading/audit/output/audit_text.h"
#include "reports/terminal/text_table.h"

namespace mtpcheck {
namespace {

using reports::Colour;
using reports::TextTable;
using Align = TextTable::Align;

constexpr std::size_t kAlike = 8;  // more rows that read alike are told in one

bool is_amiss(const EngineRow& row) {
  const auto cell_amiss = [](const EngineCell& cell) {
    return cell.status == CellStatus::partial || cell.status == CellStatus::unassigned;
  };
  const auto relation_amiss = [](const RowRelation& each) {
    return each.relation != Relation::equal && each.relation != Relation::permuted &&
           each.relation != Relation::not_compared;
  };
  return std::ranges::any_of(row.cells, cell_amiss) || std::ranges::any_of(row.relations, relation_amiss);
}

Colour colour_of_cell(const EngineCell& cell) {
  switch (cell.status) {
    case CellStatus::loaded:
      return Colour::none;
    case CellStatus::partial:
    case CellStatus::unassigned:
    case CellStatus::refused:
      return Colour::red;
    default:
      return Colour::dim;
  }
}

Colour colour_of_relation(Relation relation) {
  switch (relation) {
    case Relation::equal:
    case Relation::permuted:
    case Relation::not_compared:
      return Colour::dim;
    default:
      return Colour::red;
  }
}

std::vector<TextTable::Cell> table_cells(const EngineRow& row) {
  std::vector<TextTable::Cell> cells;
  for (const EngineCell& cell : row.cells) cells.push_back({in_words(cell), colour_of_cell(cell)});
  for (const RowRelation& each : row.relations) {
    cells.push_back({std::string(to_string(each.relation)), colour_of_relation(each.relation)});
  }
  return cells;
}

/// Rows whose cells read alike.
struct Alike {
  std::vector<TextTable::Cell> cells;
  std::vector<std::string> names;
  bool amiss = false;
};

std::vector<Alike> alike_rows(const EngineTable& table) {
  std::vector<Alike> groups;
  for (const EngineRow& row : table.rows) {
    auto cells = table_cells(row);
    const bool amiss = is_amiss(row);
    const auto same = std::ranges::find_if(groups, [&](const Alike& group) {
      return group.amiss == amiss &&
             std::ranges::equal(group.cells, cells, {}, &TextTable::Cell::text, &TextTable::Cell::text);
    });
    if (same == groups.end()) {
      groups.push_back({std::move(cells), {row.parameters.name}, amiss});
    } else {
      same->names.push_back(row.parameters.name);
    }
  }
  std::stable_partition(groups.begin(), groups.end(), [](const Alike& group) { return group.amiss; });
  return groups;
}

std::string rows_table(const EngineTable& table, bool colours) {
  const auto engines = short_names(table);
  std::vector<TextTable::Heading> headings{{"parameter", Align::left}};
  for (const auto& engine : engines) headings.push_back({engine, Align::left});
  for (const HeadRelation& heads : table.heads) {
    headings.push_back(
        {fmt::format("{} / {}", engines[heads.between.first], engines[heads.between.second]), Align::left});
  }
  TextTable text(headings);
  const auto add = [&text](const std::string& name, std::vector<TextTable::Cell> cells) {
    cells.insert(cells.begin(), {name});
    text.add(std::move(cells));
  };
  const auto groups = alike_rows(table);
  const std::string others = groups.front().amiss ? "others" : "parameters";
  for (const Alike& group : groups) {
    if (group.amiss && group.names.size() <= kAlike) {
      for (const auto& name : group.names) add(name, group.cells);
    } else if (group.amiss) {
      add(fmt::format("{} and {} more", group.names.front(), group.names.size() - 1), group.cells);
    } else if (group.names.size() == 1) {
      add(group.names.front(), group.cells);
    } else {
      add(fmt::format("{} {}", group.names.size(), others), group.cells);
    }
  }
  return text.render(colours);
}

std::string defects_table(const EngineTable& table, std::span<const EngineAudit> audits, bool colours) {
  std::vector<TextTable::Heading> headings{{"defect", Align::left}};
  for (const auto& engine : short_names(table)) headings.push_back({engine, Align::left});
  TextTable text(headings);
  for (const Defect& defect : table.defects) {
    std::vector<TextTable::Cell> row{
        {fmt::format("{} {}  {}", to_string(defect.severity), defect.id, defect.subject), colour_of(defect.severity)}};
    for (std::size_t i = 0; i < audits.size(); ++i) row.push_back({in_words(defect, i, *audits[i].audit)});
    text.add(std::move(row));
  }
  return text.render(colours);
}

/// Engines whose finding reads the same in one field, after the text that they share.
std::string told_by(const Defect& defect, const std::vector<std::string>& engines, std::string Finding::*field) {
  std::vector<std::pair<std::string, std::vector<std::string>>> told;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    if (!defect.findings[i]) continue;
    const std::string& text = *defect.findings[i].*field;
    const auto same = std::ranges::find(told, text, &std::pair<std::string, std::vector<std::string>>::first);
    if (same == told.end()) {
      told.push_back({text, {engines[i]}});
    } else {
      same->second.push_back(engines[i]);
    }
  }
  if (told.size() == 1) return told.front().first;
  std::string text;
  for (const auto& [words, by] : told) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n                  ", fmt::join(by, ", "), words);
  }
  return text;
}

std::string details_of(const Defect& defect, const std::vector<std::string>& engines, bool colours) {
  const std::string mark = fmt::format("{:<7} {}", to_string(defect.severity), defect.id);
  std::string text =
      fmt::format("{}  {}\n        found     {}\n        expected  {}\n",
                  reports::coloured(mark, colour_of(defect.severity), colours), defect.subject,
                  told_by(defect, engines, &Finding::found), told_by(defect, engines, &Finding::expected));
  for (std::size_t i = 0; i < engines.size(); ++i) {
    if (!defect.findings[i] || defect.findings[i]->engine_says.empty()) continue;
    text += fmt::format("        {} says {}\n", engines[i], defect.findings[i]->engine_says);
  }
  return text;
}

}  // namespace

std::vector<std::string> short_names(const EngineTable& table) {
  std::vector<std::string> names;
  const auto engine_of = [](const std::string& name) { return name.substr(0, name.find(' ')); };
  for (const auto& name : table.engines) {
    const std::string engine = engine_of(name);
    const auto versions =
        std::ranges::count_if(table.engines, [&](const auto& each) { return engine_of(each) == engine; });
    names.push_back(versions == 1 ? engine : fmt::format("{}@{}", engine, name.substr(engine.size() + 1)));
  }
  return names;
}

std::string in_words(const EngineCell& cell) {
  const bool gap = cell.status == CellStatus::partial || cell.status == CellStatus::unassigned;
  return fmt::format("{}{}{}", to_string(cell.status), gap ? ", " : "", gap ? to_string(cell.voice) : "");
}

std::string in_words(const Defect& defect, std::size_t engine, const Audit& audit) {
  if (defect.findings[engine]) return std::string(to_string(voice_of(*defect.findings[engine])));
  if (audit.plan->refusal) return "(refused)";
  const bool stopped = audit.plan->exception && audit.plan->exception->where != EngineException::Where::strict_check;
  return stopped ? "(stopped)" : "–";
}

std::string in_words(const EngineTable& table, const HeadRelation& heads) {
  return fmt::format("{} and {}: {}{}{}", table.engines[heads.between.first], table.engines[heads.between.second],
                     to_string(heads.verdict), heads.why.empty() ? "" : ": ", heads.why);
}

std::string to_text(const EngineTable& table, std::span<const EngineAudit> audits, const Checkpoint& checkpoint,
                    bool colours) {
  std::string text = files_in_words(checkpoint) + "\n";
  for (std::size_t i = 0; i < audits.size(); ++i) {
    const LoadPlan& plan = *audits[i].audit->plan;
    text += fmt::format("{}: {}\n", table.engines[i],
                        plan.refusal ? "refuses the config" : statuses_in_words(*audits[i].audit));
  }
  if (!table.rows.empty()) text += fmt::format("\n{}", rows_table(table, colours));
  if (!table.defects.empty()) text += fmt::format("\n{}\n", defects_table(table, audits, colours));
  const auto engines = short_names(table);
  for (const Defect& defect : table.defects) text += details_of(defect, engines, colours);
  text += "\n";
  for (const HeadRelation& heads : table.heads) {
    const bool same = heads.verdict == HeadVerdict::same;
    text += reports::coloured(in_words(table, heads), same ? Colour::green : Colour::red, colours) + "\n";
  }
  return text;
}

}  // namespace mtpcheck
