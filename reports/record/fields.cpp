#include "reports/record/fields.h"

namespace mtpcheck::reports {
namespace {

constexpr Field<ErrorRecord> kError[] = {
    {"max_abs", "stage", &ErrorRecord::max_abs},
    {"mean_abs", "stage", &ErrorRecord::mean_abs},
    {"rms", "stage", &ErrorRecord::rms},
    {"relative_l2", "1", &ErrorRecord::relative_l2},
    {"cosine_distance", "1", &ErrorRecord::cosine_distance},
    {"rounding_rms", "stage", &ErrorRecord::rounding_rms},
    {"noise_samples", "inputs", &ErrorRecord::noise_samples},
    {"allowance", "stage", &ErrorRecord::allowance},
    {"allowance_used", "1", &ErrorRecord::allowance_used},
    {"worst_row_used", "1", &ErrorRecord::worst_row_used},
    {"worst_row", "row", &ErrorRecord::worst_row},
    {"range", "stage", &ErrorRecord::range},
    {"elements", "elements", &ErrorRecord::elements},
    {"mask_mismatches", "elements", &ErrorRecord::mask_mismatches},
    {"candidate_nan", "elements", &ErrorRecord::candidate_nan},
    {"reference_nan", "elements", &ErrorRecord::reference_nan},
    {"candidate_inf", "elements", &ErrorRecord::candidate_inf},
    {"reference_inf", "elements", &ErrorRecord::reference_inf},
    {"pass", "", &ErrorRecord::pass},
    {"reason", "", &ErrorRecord::reason},
};

constexpr Field<DistributionRecord> kDistribution[] = {
    {"relative_p50", "1", &DistributionRecord::relative_p50},
    {"relative_p90", "1", &DistributionRecord::relative_p90},
    {"relative_p99", "1", &DistributionRecord::relative_p99},
    {"relative_p999", "1", &DistributionRecord::relative_p999},
    {"ulp_mean", "ulp", &DistributionRecord::ulp_mean},
    {"ulp_p99", "ulp", &DistributionRecord::ulp_p99},
    {"ulp_max", "ulp", &DistributionRecord::ulp_max},
    {"sign_flips", "elements", &DistributionRecord::sign_flips},
    {"reference_zeros", "1", &DistributionRecord::reference_zeros},
    {"candidate_zeros", "1", &DistributionRecord::candidate_zeros},
};

constexpr Field<LogitsRecord> kLogits[] = {
    {"kl_mean", "nat", &LogitsRecord::kl_mean},
    {"kl_max", "nat", &LogitsRecord::kl_max},
    {"kl_max_row", "row", &LogitsRecord::kl_max_row},
    {"top1_agreement", "1", &LogitsRecord::top1_agreement},
    {"top5_agreement", "1", &LogitsRecord::top5_agreement},
};

constexpr Field<SelectionRecord> kSelection[] = {
    {"rows", "rows", &SelectionRecord::rows},
    {"flipped_rows", "rows", &SelectionRecord::flipped_rows},
    {"excused_rows", "rows", &SelectionRecord::excused_rows},
    {"unexcused_rows", "rows", &SelectionRecord::unexcused_rows},
    {"jaccard_mean", "1", &SelectionRecord::jaccard_mean},
    {"jaccard_min", "1", &SelectionRecord::jaccard_min},
    {"worst_margin", "score", &SelectionRecord::worst_margin},
    {"worst_noise", "score", &SelectionRecord::worst_noise},
    {"worst_row", "row", &SelectionRecord::worst_row},
};

constexpr Field<StageRecord> kStage[] = {
    {"name", "", &StageRecord::name},
    {"stage", "", &StageRecord::stage},
    {"step", "", &StageRecord::step},
    {"sequence", "", &StageRecord::sequence},
    {"candidate_dtype", "", &StageRecord::candidate_dtype},
    {"pass", "", &StageRecord::pass},
    {"reason", "", &StageRecord::reason},
    {"missing", "", &StageRecord::missing},
    {"forced", "", &StageRecord::forced},
    {"likely_cause", "", &StageRecord::likely_cause},
};

constexpr Field<ConventionRecord> kConvention[] = {
    {"key", "", &ConventionRecord::key},
    {"value", "", &ConventionRecord::value},
    {"level", "", &ConventionRecord::level},
    {"source", "", &ConventionRecord::source},
};

constexpr Field<UnmatchedRecord> kUnmatched[] = {
    {"name", "", &UnmatchedRecord::name},
    {"side", "", &UnmatchedRecord::side},
    {"suggestion", "", &UnmatchedRecord::suggestion},
};

constexpr Field<FindingRecord> kFinding[] = {
    {"id", "", &FindingRecord::id},
    {"severity", "", &FindingRecord::severity},
    {"subject", "", &FindingRecord::subject},
    {"message", "", &FindingRecord::message},
};

constexpr Field<RunRecord> kRun[] = {
    {"tool_version", "", &RunRecord::tool_version},
    {"command_line", "", &RunRecord::command_line},
    {"repro", "", &RunRecord::repro},
    {"config", "", &RunRecord::config},
    {"host", "", &RunRecord::host},
    {"processor", "", &RunRecord::processor},
    {"system", "", &RunRecord::system},
    {"processors", "", &RunRecord::processors},
};

constexpr Field<CheckpointRecord> kCheckpoint[] = {
    {"path", "", &CheckpointRecord::path},
    {"identity", "", &CheckpointRecord::identity},
    {"files", "files", &CheckpointRecord::files},
    {"bytes", "bytes", &CheckpointRecord::bytes},
};

constexpr Field<ToleranceRecord> kTolerance[] = {
    {"precision", "", &ToleranceRecord::precision},
    {"k", "1", &ToleranceRecord::k},
    {"floor_ulps", "ulp", &ToleranceRecord::floor_ulps},
    {"row_factor", "1", &ToleranceRecord::row_factor},
};

}  // namespace

std::span<const Field<ErrorRecord>> fields_of(const ErrorRecord*) { return kError; }
std::span<const Field<DistributionRecord>> fields_of(const DistributionRecord*) { return kDistribution; }
std::span<const Field<LogitsRecord>> fields_of(const LogitsRecord*) { return kLogits; }
std::span<const Field<SelectionRecord>> fields_of(const SelectionRecord*) { return kSelection; }
std::span<const Field<StageRecord>> fields_of(const StageRecord*) { return kStage; }
std::span<const Field<ConventionRecord>> fields_of(const ConventionRecord*) { return kConvention; }
std::span<const Field<UnmatchedRecord>> fields_of(const UnmatchedRecord*) { return kUnmatched; }
std::span<const Field<FindingRecord>> fields_of(const FindingRecord*) { return kFinding; }
std::span<const Field<RunRecord>> fields_of(const RunRecord*) { return kRun; }
std::span<const Field<CheckpointRecord>> fields_of(const CheckpointRecord*) { return kCheckpoint; }
std::span<const Field<ToleranceRecord>> fields_of(const ToleranceRecord*) { return kTolerance; }

}  // namespace mtpcheck::reports
