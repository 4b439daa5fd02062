#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace mtpcheck::reports {

/// The error of one stage in one view: candidate minus reference, over the elements that are finite on both sides.
/// Units are those of the stage; `relative_l2`, `cosine_distance` and the `…_used` are pure numbers.
struct ErrorRecord {
  double max_abs = 0;
  double mean_abs = 0;
  double rms = 0;          ///< what decides
  double relative_l2 = 0;  ///< ‖candidate − reference‖ / ‖reference‖; infinite against an all-zero reference
  double cosine_distance = 0;      ///< 1 − cos; 1 when exactly one side is all zero, 0 when both are
  double rounding_rms = 0;         ///< the same of the rounded reference
  std::int64_t noise_samples = 1;  ///< inputs on which that was measured: the compared one, and nearby ones
  double allowance = 0;            ///< k · rounding_rms + floor
  double allowance_used = 0;       ///< rms / allowance; 0 / 0 is 0
  double worst_row_used = 0;       ///< largest of row error / row limit
  std::int64_t worst_row = -1;
  double range = 0;                  ///< largest finite magnitude of the reference
  std::int64_t elements = 0;         ///< compared: finite on both sides
  std::int64_t mask_mismatches = 0;  ///< elements whose NaN, +Inf and −Inf masks differ, or that are NaN on any side
  std::int64_t candidate_nan = 0;
  std::int64_t reference_nan = 0;
  std::int64_t candidate_inf = 0;
  std::int64_t reference_inf = 0;
  bool pass = false;
  std::string reason;  ///< why it fails, in words; empty where it passes
};

/// How the errors of a stage are distributed.
struct DistributionRecord {
  /// Percentiles of |candidate − reference| / |reference| over elements with a non-zero reference.
  double relative_p50 = 0, relative_p90 = 0, relative_p99 = 0, relative_p999 = 0;
  /// Distance in units in the last place of the candidate's type (f32, bf16, f16); −1 where it has none.
  double ulp_mean = -1, ulp_p99 = -1, ulp_max = -1;
  std::int64_t sign_flips = 0;          ///< both sides non-zero, opposite signs
  double reference_zeros = 0;           ///< share of elements
  double candidate_zeros = 0;           ///< share of elements
  std::vector<std::int64_t> histogram;  ///< |error| / RMS of the reference by decade, see histogram_edges()
};

/// Edges of DistributionRecord::histogram: decades 1e−12 … 1e2; bin i counts [edge i, edge i+1), the first everything
/// below (exact agreement included), the last everything above.
inline constexpr int kHistogramFirstDecade = -12;
inline constexpr int kHistogramBins = 15;

/// Logits as distributions: p the reference's softmax, q the candidate's.
struct LogitsRecord {
  double kl_mean = 0;  ///< nats, over rows of Σ p log(p/q)
  double kl_max = 0;   ///< nats
  std::int64_t kl_max_row = -1;
  double top1_agreement = 0;  ///< share of rows with the same argmax
  double top5_agreement = 0;  ///< mean share of the reference's five best that the candidate has among its five
};

/// A stage of choices (top-k keys, experts), compared as sets, row by row.
struct SelectionRecord {
  std::int64_t rows = 0;
  std::int64_t flipped_rows = 0;    ///< rows whose sets differ
  std::int64_t excused_rows = 0;    ///< … by less than the noise of the scores
  std::int64_t unexcused_rows = 0;  ///< … by more, or with an impossible choice
  double jaccard_mean = 1;
  double jaccard_min = 1;
  double worst_margin = 0;  ///< largest lead, in the reference's scores, of a key left out over one chosen instead
  double worst_noise = 0;   ///< the noise at that row
  std::int64_t worst_row = -1;
};

struct WorstElement {
  std::vector<std::int64_t> coordinates;  ///< in the order of StageRecord::dimensions
  double reference = 0;
  double candidate = 0;
};

/// Error and limit by token, and error by channel (last dimension).
struct ProfileRecord {
  std::vector<double> token_rms;        ///< [T] error
  std::vector<double> token_allowance;  ///< [T] what a row may err by
  std::vector<double> channel_rms;      ///< [C] error over tokens
};

/// A tensor kept in the report. Bytes are little-endian, row-major; bf16 and f16 are widened to float32, exactly.
struct KeptTensor {
  enum class Type : std::uint8_t { f32, f64, i32 };
  Type type = Type::f32;
  std::vector<std::byte> bytes;
};

/// One stage of one draft step, of one sequence where the stage is per sequence.
struct StageRecord {
  std::string name;   ///< full: "step1.indexer_scores.seq0"
  std::string stage;  ///< "indexer_scores"
  std::int64_t step = 0;
  std::int64_t sequence = -1;           ///< −1: all packed rows
  std::vector<std::string> dimensions;  ///< names of the extents: "T", "H", "N*v", …
  std::vector<std::int64_t> extents;
  std::string candidate_dtype;
  bool pass = false;
  std::string reason;                 ///< why it fails; empty where it passes
  bool missing = false;               ///< the candidate has no such tensor
  bool forced = false;                ///< the reference was run with the candidate's selections here
  std::string likely_cause;           ///< "the candidate matches half-split RoPE"; empty: none found or none sought
  ErrorRecord cumulative;             ///< both heads from the same inputs
  std::optional<ErrorRecord> replay;  ///< the reference's stage on the candidate's own inputs
  std::optional<SelectionRecord> selection;
  std::optional<SelectionRecord> selection_replay;
  std::optional<DistributionRecord> distribution;
  std::optional<LogitsRecord> logits;
  std::vector<WorstElement> worst;
  ProfileRecord profile;
  std::optional<KeptTensor> reference_tensor;
  std::optional<KeptTensor> candidate_tensor;
};

/// One side's key of a convention and where its value came from.
struct ConventionRecord {
  std::string key;
  std::string value;
  std::string level;   ///< builtin, mtpcheck.json, preset, option
  std::string source;  ///< "preset transformers"
};

struct SideRecord {
  std::string role;   ///< "reference", "candidate"
  std::string head;   ///< "torch bf16"
  std::string dtype;  ///< "f64", "bf16", …
  std::vector<ConventionRecord> conventions;
};

struct ToleranceRecord {
  std::string precision;  ///< P of the rounded reference
  double k = 2;
  double floor_ulps = 4;
  double row_factor = 8;
};

/// Something of the candidate or the reference that had no partner.
struct UnmatchedRecord {
  std::string name;
  std::string side;        ///< "candidate": a tensor nobody asked for; "reference": a stage the candidate lacks
  std::string suggestion;  ///< what it may have been meant to be; empty: no idea
};

struct ComparisonRecord {
  bool pass = false;
  std::string first_divergent_stage;          ///< first that fails in the cumulative view; empty: none
  std::string first_failing_stage_in_replay;  ///< empty: none, or no replay
  std::int64_t tokens = 0;
  std::vector<std::int64_t> sequence_starts;  ///< cu_seqlens of the compared rows, [B+1]
  ToleranceRecord tolerance;
  std::vector<StageRecord> stages;  ///< in the order of computation
  std::vector<UnmatchedRecord> unmatched;
  std::vector<std::string> notes;  ///< what a reader has to know, e.g. selections that were forced
};

}  // namespace mtpcheck::reports
