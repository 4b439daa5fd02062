#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "reports/record/comparison.h"
#include "reports/record/report.h"

/// What a record's members are called and measured in, once, for HDF5 columns, JSON keys and `report diff` alike.
namespace mtpcheck::reports {

template <class Record>
struct Field {
  std::string_view name;
  std::string_view unit;  ///< "stage": the unit of the stage itself; "1": a pure number; "": text or id
  std::variant<double Record::*, std::int64_t Record::*, bool Record::*, std::string Record::*> member;
};

std::span<const Field<ErrorRecord>> fields_of(const ErrorRecord*);
std::span<const Field<DistributionRecord>> fields_of(const DistributionRecord*);
std::span<const Field<LogitsRecord>> fields_of(const LogitsRecord*);
std::span<const Field<SelectionRecord>> fields_of(const SelectionRecord*);
std::span<const Field<StageRecord>> fields_of(const StageRecord*);
std::span<const Field<ConventionRecord>> fields_of(const ConventionRecord*);
std::span<const Field<UnmatchedRecord>> fields_of(const UnmatchedRecord*);
std::span<const Field<FindingRecord>> fields_of(const FindingRecord*);
std::span<const Field<RunRecord>> fields_of(const RunRecord*);
std::span<const Field<CheckpointRecord>> fields_of(const CheckpointRecord*);
std::span<const Field<ToleranceRecord>> fields_of(const ToleranceRecord*);

/// The fields of a record type.
template <class Record>
std::span<const Field<Record>> fields() {
  return fields_of(static_cast<const Record*>(nullptr));
}

}  // namespace mtpcheck::reports
