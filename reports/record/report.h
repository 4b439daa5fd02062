#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/record/comparison.h"
#include "reports/record/table.h"

namespace mtpcheck::reports {

/// The layout of the HDF5 file; docs/report-schema.md describes each version.
inline constexpr int kSchemaVersion = 1;

/// How the run was made, so that it can be made again.
struct RunRecord {
  std::string tool_version;
  std::string command_line;  ///< as given, quoted for a shell
  std::string repro;         ///< a command that reruns just what failed; empty where nothing did
  std::string config;        ///< the checkpoint's config.json, as text
  std::string host;          ///< name of the machine
  std::string processor;
  std::string system;  ///< kernel and its release
  std::int64_t processors = 0;
};

struct CheckpointRecord {
  std::string path;
  std::string identity;  ///< "sha256:…" over the files' names, sizes and headers; empty: no checkpoint
  std::int64_t files = 0;
  std::int64_t bytes = 0;
};

/// One statement of an audit or a gate.
struct FindingRecord {
  std::string id;        ///< "partial", "duplicate-tensor", …
  std::string severity;  ///< "info", "warning", "error"
  std::string subject;   ///< the tensor, parameter or stage it is about
  std::string message;
};

/// What a verb found, in the form in which it is kept. Every part but the first three may be absent.
struct Report {
  int schema_version = kSchemaVersion;
  std::string verb;  ///< "compare", "accept", "audit", …
  bool pass = false;
  RunRecord run;
  CheckpointRecord checkpoint;
  std::vector<SideRecord> sides;
  std::optional<ComparisonRecord> comparison;
  std::vector<FindingRecord> findings;
  std::vector<Table> tables;  ///< what a verb records beyond these: acceptance curves, coverage, …
};

}  // namespace mtpcheck::reports
