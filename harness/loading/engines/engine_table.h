#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/checkpoint/checkpoint.h"
#include "harness/loading/audit/audit.h"
#include "harness/loading/engines/agreement.h"
#include "harness/loading/engines/defects.h"
#include "harness/loading/engines/pairing.h"
#include "reference/model/config.h"

namespace mtpcheck {

/// What one engine makes of a row's parameters.
enum class CellStatus : std::uint8_t {
  loaded,      ///< every element
  partial,     ///< some
  unassigned,  ///< none
  by_default,  ///< none, and the engine puts something there later
  shared,      ///< none: the target model's own is used
  refused,     ///< the engine does not build the model
  absent,      ///< it has no such parameter
};

/// "loaded", "partial", "unassigned", "default", "shared", "refused", "–"
std::string_view to_string(CellStatus status);

struct EngineCell {
  CellStatus status = CellStatus::absent;
  Voice voice = Voice::silent;  ///< where the status is partial or unassigned
  std::size_t elements = 0;
  std::size_t written = 0;
};

/// Two engines, as indices into the table's, the first one smaller.
struct EnginePair {
  std::size_t first = 0;
  std::size_t second = 0;
};

/// What two engines hold in a row.
enum class Relation : std::uint8_t {
  equal,         ///< the same in every element
  permuted,      ///< the same, in another order of rows that each engine expects
  differs,       ///< not the same, or only one of them wrote it
  only_first,    ///< the second has no such parameter
  only_second,   ///< the first has none
  incomplete,    ///< the same where they wrote; the rest is what memory held, in both
  not_compared,  ///< one of them refuses the model, shares the target's own, or fills it in later
};

/// "equal", "permuted", "differs", "only one has it", "unwritten in both", "–"
std::string_view to_string(Relation relation);

struct RowRelation {
  EnginePair between;
  Relation relation = Relation::not_compared;
  Agreement agreement;
};

struct EngineRow {
  PairedParameters parameters;
  std::vector<EngineCell> cells;       ///< of each engine
  std::vector<RowRelation> relations;  ///< of each pair
};

/// Would two engines run the same head?
enum class HeadVerdict : std::uint8_t {
  same,        ///< every weight is the same
  different,   ///< some weight is not
  incomplete,  ///< what both wrote is the same, and both left something unwritten
  no_head,     ///< one of them ends without a head: refused or stopped
};

/// "same head", "different heads", "incomplete in both", "no head"
std::string_view to_string(HeadVerdict verdict);

struct HeadRelation {
  EnginePair between;
  HeadVerdict verdict = HeadVerdict::no_head;
  std::string why;  ///< which parameters, or where an engine stops; for the same head what was left out
};

/// What several engines make of one checkpoint.
struct EngineTable {
  std::vector<std::string> engines;  ///< "vllm 0.33.0"
  std::vector<EngineRow> rows;
  std::vector<Defect> defects;  ///< the gravest first
  std::vector<HeadRelation> heads;
};

/// Puts the audits of one checkpoint side by side. Only the bytes that no plan explains away are read.
EngineTable engine_table(const Checkpoint& checkpoint, const HeadConfig& config, std::span<const EngineAudit> audits);

/// True where no engine's audit has a finding as grave as `limit` and no two engines end with different heads.
bool passes(const EngineTable& table, std::span<const EngineAudit> audits, Severity limit);

}  // namespace mtpcheck
