#include "harness/parity/comparison/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "harness/parity/comparison/second_look.h"
#include "harness/parity/comparison/selections.h"
#include "harness/parity/stage/stage_errors.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

bool is_choice(Stage stage) { return info(stage).kind != StageKind::values; }

class Comparison {
 public:
  Comparison(const Trace& candidate, const ReferenceRuns& reference, const ComparisonOptions& options)
      : candidate_(candidate), reference_(reference), options_(options), forced_(options.steps) {}

  reports::ComparisonRecord run() {
    run_reference();
    settle_selections();
    noise_ = noise_by_stage(rounded_, truth_);
    rounded_.clear();
    run_replay();
    look_again();
    pooled_ = pooled_noise(noise_);
    replay_pooled_ = pooled_noise(replay_noise_);
    for (const auto& [key, truth] : truth_) {
      if (is_compared(key)) record_.stages.push_back(compared(key, truth));
    }
    note_unmatched();
    conclude();
    return std::move(record_);
  }

 private:
  void say(std::string_view doing) const {
    if (options_.progress) options_.progress(doing);
  }

  bool is_compared(const StageKey& key) const { return !reference_.compared || reference_.compared(key.stage); }

  void run_reference() {
    say("reference in float64");
    truth_ = reference_.run(Dtype::f64, forced_);
    if (options_.tolerance.precision == Dtype::f64) {
      rounded_ = truth_;
      return;
    }
    say(fmt::format("reference rounded to {}", precision_name(options_.tolerance.precision)));
    rounded_ = reference_.run(options_.tolerance.precision, choices_of_truth());
  }

  std::vector<Selections> choices_of_truth() const {
    std::vector<Selections> chosen;
    for (std::size_t step = 0; step < options_.steps; ++step) chosen.push_back(selections_of(truth_, step));
    return chosen;
  }

  void run_replay() {
    if (!reference_.replay) return;
    say("replay in float64");
    replay_truth_ = reference_.replay(Dtype::f64, candidate_);
    if (options_.tolerance.precision == Dtype::f64) {
      replay_noise_ = noise_by_stage(replay_truth_, replay_truth_);
      return;
    }
    say(fmt::format("replay rounded to {}", precision_name(options_.tolerance.precision)));
    replay_noise_ = noise_by_stage(reference_.replay(options_.tolerance.precision, candidate_), replay_truth_);
  }

  /// A stage that fails by what may be luck is held to more samples of its rounding noise than one.
  void look_again() {
    const Tolerance& tolerance = options_.tolerance;
    if (tolerance.precision == Dtype::f64) return;
    if (reference_.run_nearby) {
      const auto forced = choices_of_truth();
      measure_again(
          noise_, doubtful_stages(candidate_, truth_, noise_, tolerance), tolerance.precision,
          [&](Dtype precision, const Nearby& nearby) { return reference_.run_nearby(precision, forced, nearby); },
          options_.progress);
    }
    if (reference_.replay && reference_.replay_nearby) {
      measure_again(
          replay_noise_, doubtful_stages(candidate_, replay_truth_, replay_noise_, tolerance), tolerance.precision,
          [&](Dtype precision, const Nearby& nearby) {
            return reference_.replay_nearby(precision, candidate_, nearby);
          },
          options_.progress);
    }
  }

  /// Goes through the choices in the order of computation; each that has to be forced changes what follows.
  void settle_selections() {
    std::vector<StageKey> choices;
    for (const auto& [key, tensor] : truth_) {
      if (is_choice(key.stage) && is_compared(key)) choices.push_back(key);
    }
    std::size_t at = 0;
    while (at < choices.size()) {  // all sequences of a stage together
      const StageKey first = choices[at];
      bool force = false;
      for (; at < choices.size() && choices[at].stage == first.stage && choices[at].step == first.step; ++at) {
        force = settle(choices[at]) || force;
      }
      if (force) {
        forced_from_.push_back(first);
        run_reference();
      }
    }
  }

  /// True when rows of this choice are to be forced.
  bool settle(const StageKey& key) {
    const Tensor* const theirs = find(candidate_, key);
    const Tensor& ours = truth_.at(key);
    if (theirs == nullptr || !shape_mismatch(key.stage, *theirs, ours).empty()) return false;
    const auto rows = scored_rows(key, truth_, rounded_, reference_, options_.tolerance);
    if (rows.size() != ours.shape.front())
      throw input_error("the reference did not record the scores of " + to_string(key));
    const Choices choices = choices_of(theirs->view(to_string(key)));
    SelectionComparison result = compare_selections(choices, choices_of(ours.view()), rows);
    selections_[key] = result.record;
    if (result.record.flipped_rows == 0) return false;
    if (!force_rows(key, choices, result)) return false;
    record_.notes.push_back(
        fmt::format("{}: {} of {} rows differ ({} excused, {} not); the reference was run again with the candidate's "
                    "choice in {}",
                    to_string(key), result.record.flipped_rows, result.record.rows, result.record.excused_rows,
                    result.record.unexcused_rows, options_.force_selections ? "all that are possible" : "the excused"));
    return true;
  }

  bool force_rows(const StageKey& key, const Choices& choices, const SelectionComparison& result) {
    Selections& forced = forced_[key.step];
    auto& rows = key.stage == Stage::topk_indices ? forced.topk_indices : forced.topk_experts;
    if (rows.empty()) {
      Selections own = selections_of(truth_, key.step);
      rows = key.stage == Stage::topk_indices ? std::move(own.topk_indices) : std::move(own.topk_experts);
    }
    const std::size_t first = first_row(key);
    bool any = false;
    for (std::size_t row = 0; row < choices.size(); ++row) {
      if (!result.excused[row] && !(options_.force_selections && result.possible[row])) continue;
      auto theirs = choices[row];
      std::erase_if(theirs, [](std::int32_t id) { return id < 0; });
      auto& target = rows.at(first + row);
      // A head that uses K experts cannot run with fewer, and no row can attend to no key.
      if (theirs.empty() || (key.stage == Stage::topk_experts && theirs.size() != target.size())) continue;
      std::ranges::sort(theirs);
      target = std::move(theirs);
      any = true;
    }
    return any;
  }

  /// Rows of the sequences before this one.
  std::size_t first_row(const StageKey& key) const {
    std::size_t rows = 0;
    for (const auto& [other, tensor] : truth_) {
      if (other.step == key.step && other.stage == key.stage && other.sequence < key.sequence) {
        rows += tensor.shape.front();
      }
    }
    return rows;
  }

  reports::StageRecord compared(const StageKey& key, const Tensor& truth) {
    reports::StageRecord record = described(key, truth);
    record.forced = std::ranges::any_of(forced_from_, [&](const StageKey& from) {
      return key.step > from.step || (key.step == from.step && key.stage > from.stage);
    });
    const Tensor* const theirs = find(candidate_, key);
    if (theirs == nullptr) {
      record.missing = true;
      record.reason = "the candidate has no such tensor";
      return record;
    }
    record.candidate_dtype = std::string(precision_name(theirs->dtype));
    record.reason = shape_mismatch(key.stage, *theirs, truth);
    if (record.reason.empty()) {
      if (is_choice(key.stage)) {
        judge_choice(record, key, *theirs);
      } else {
        judge_values(record, key, *theirs, truth);
      }
    }
    record.pass = record.reason.empty();
    keep_tensors(record, *theirs, truth);
    return record;
  }

  void judge_values(reports::StageRecord& record, const StageKey& key, const Tensor& theirs, const Tensor& truth) {
    measure_values(record, key, theirs, truth, noise_.at(key), options_.tolerance, noise_at(pooled_, key.stage));
    if (!record.cumulative.pass) {
      record.reason = record.cumulative.reason;
      record.likely_cause = cause_of_feeding(record, key, theirs);
    }
    const Tensor* const replayed = find(replay_truth_, key);
    if (replayed == nullptr || replayed->shape != theirs.shape || !replay_noise_.contains(key)) return;
    record.replay = in_replay(record, key, theirs, *replayed);
    if (record.replay->pass) return;
    record.reason = "in replay: " + record.replay->reason;
    if (record.likely_cause.empty()) record.likely_cause = cause_of_values(record, key, theirs);
  }

  /// What is fed wrongly changes no stage, but an input: it shows in the cumulative view, and in replay only where the
  /// inputs to replay from are those that should have been fed.
  std::string cause_of_feeding(const reports::StageRecord& record, const StageKey& key, const Tensor& theirs) const {
    for (const auto& deviation : reference_.deviations) {
      if (!deviation.fed_wrongly) continue;
      const Tensor explained = deviation.replay(key, candidate_);
      if (explained.bytes.empty() || explained.shape != theirs.shape) continue;
      const Tensor matched = rows_in_scale(explained, theirs);
      const auto errors = stage_errors(key.stage, theirs.view(record.name), matched.view(record.name), noise_.at(key),
                                       options_.tolerance, noise_at(pooled_, key.stage));
      if (errors.record.pass) return "the candidate matches " + deviation.description;
    }
    return {};
  }

  /// The first known deviation that explains the candidate within the allowance of its replay.
  std::string cause_of_values(const reports::StageRecord& record, const StageKey& key, const Tensor& theirs) const {
    for (const auto& deviation : reference_.deviations) {
      const Tensor explained = deviation.replay(key, candidate_);
      if (explained.bytes.empty() || explained.shape != theirs.shape) continue;
      if (in_replay(record, key, theirs, explained).pass) return "the candidate matches " + deviation.description;
    }
    return {};
  }

  /// The candidate against what is computed from its own inputs, rightly or with a deviation.
  reports::ErrorRecord in_replay(const reports::StageRecord& record, const StageKey& key, const Tensor& theirs,
                                 const Tensor& expected) const {
    return stage_errors(key.stage, theirs.view(record.name), expected.view(record.name), replay_noise_.at(key),
                        options_.tolerance, noise_at(replay_pooled_, key.stage))
        .record;
  }

  void judge_choice(reports::StageRecord& record, const StageKey& key, const Tensor& theirs) {
    record.selection = selections_.at(key);
    record.cumulative.pass = record.selection->unexcused_rows == 0;
    if (!record.cumulative.pass) record.reason = unexcused(*record.selection);
    const Tensor* const replayed = find(replay_truth_, key);
    if (replayed == nullptr) return;
    const auto rows = scored_rows(key, candidate_, candidate_, reference_, options_.tolerance);
    if (rows.size() != replayed->shape.front()) return;
    record.selection_replay =
        compare_selections(choices_of(theirs.view(record.name)), choices_of(replayed->view()), rows).record;
    if (record.selection_replay->unexcused_rows == 0) return;
    record.reason = "in replay: " + unexcused(*record.selection_replay);
    for (const auto& deviation : reference_.deviations) {
      const Tensor explained = deviation.replay(key, candidate_);
      if (explained.bytes.empty()) continue;
      const auto choice = compare_selections(choices_of(theirs.view()), choices_of(explained.view()), rows).record;
      if (choice.unexcused_rows == 0) {
        record.likely_cause = "the candidate matches " + deviation.description;
        return;
      }
    }
  }

  static std::string unexcused(const reports::SelectionRecord& selection) {
    return fmt::format("{} of {} rows choose otherwise, by more than noise: in row {} by {:.3g}, noise {:.3g}",
                       selection.unexcused_rows, selection.rows, selection.worst_row, selection.worst_margin,
                       selection.worst_noise);
  }

  void keep_tensors(reports::StageRecord& record, const Tensor& theirs, const Tensor& truth) const {
    if (options_.keep == Keep::none || (options_.keep == Keep::failing && record.pass)) return;
    if (theirs.shape != truth.shape) return;
    record.reference_tensor = kept(truth);
    record.candidate_tensor = kept(theirs);
  }

  void note_unmatched() {
    for (const auto& stage : record_.stages) {
      if (stage.missing) record_.unmatched.push_back({stage.name, "reference", {}});
    }
    for (const auto& [key, tensor] : candidate_) {
      if (is_compared(key) && !truth_.contains(key)) record_.unmatched.push_back({to_string(key), "candidate", {}});
    }
  }

  void conclude() {
    record_.tolerance = {std::string(precision_name(options_.tolerance.precision)), options_.tolerance.k,
                         options_.tolerance.floor_ulps, options_.tolerance.row_factor};
    record_.sequence_starts = options_.sequence_starts;
    record_.tokens = record_.sequence_starts.empty() ? 0 : record_.sequence_starts.back();
    record_.pass = record_.unmatched.empty();
    for (const auto& stage : record_.stages) {
      record_.pass = record_.pass && stage.pass;
      if (stage.missing) continue;
      if (!stage.cumulative.pass && record_.first_divergent_stage.empty()) record_.first_divergent_stage = stage.name;
      const bool replay_fails = (stage.replay && !stage.replay->pass) ||
                                (stage.selection_replay && stage.selection_replay->unexcused_rows > 0);
      if (replay_fails && record_.first_failing_stage_in_replay.empty()) {
        record_.first_failing_stage_in_replay = stage.name;
      }
    }
  }

  const Trace& candidate_;
  const ReferenceRuns& reference_;
  const ComparisonOptions& options_;
  std::vector<Selections> forced_;
  std::vector<StageKey> forced_from_;
  Trace truth_, rounded_, replay_truth_;
  NoiseByStage noise_, replay_noise_;
  RelativeNoise pooled_, replay_pooled_;
  std::map<StageKey, reports::SelectionRecord, ByComputation> selections_;
  reports::ComparisonRecord record_;
};

}  // namespace

reports::ComparisonRecord compare(const Trace& candidate, const ReferenceRuns& reference,
                                  const ComparisonOptions& options) {
  return Comparison(candidate, reference, options).run();
}

}  // namespace mtpcheck
