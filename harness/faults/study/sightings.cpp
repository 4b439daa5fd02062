#include "harness/faults/study/sightings.h"

#include <algorithm>
#include <cmath>

#include "harness/acceptance/study/study.h"
#include "harness/checkpoint/checkpoint.h"
#include "harness/loading/audit/audit.h"
#include "harness/loading/rules.h"
#include "harness/parity/comparison/comparison.h"
#include "harness/parity/reference_side/reference_side.h"
#include "reference/head/reference_head.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

bool names(const Finding& finding, std::string_view place) {
  return finding.subject.find(place) != std::string::npos || finding.found.find(place) != std::string::npos ||
         finding.expected.find(place) != std::string::npos;
}

// A checkpoint whose files cannot be read has problems instead of findings: the audit exits 3 with them.
Sighting look_at_problems(const Checkpoint& checkpoint, const Fault& fault) {
  Sighting sighting{.looked = true};
  for (const auto& problem : checkpoint.problems) {
    const bool place =
        problem.file.find(fault.where) != std::string::npos || problem.tensor.find(fault.where) != std::string::npos;
    if (sighting.seen && !(place && !sighting.right_place)) continue;
    sighting.seen = true;
    sighting.right_place = place;
    sighting.evidence =
        std::string(to_string(problem.id)) + " " + (problem.tensor.empty() ? problem.file : problem.tensor);
  }
  return sighting;
}

const Tensor* hidden_of_step(const Trace& trace, Stage stage) {
  const auto found = trace.find(StageKey{stage, 0, std::nullopt});
  return found == trace.end() ? nullptr : &found->second;
}

// Rows `which` of a stage, as the hidden states of the next step.
Tensor picked_rows(const Tensor& from, const std::vector<std::size_t>& which) {
  const std::size_t row = from.bytes.size() / from.shape.at(0);
  Tensor result = make_tensor(from.dtype, {which.size(), from.shape.at(1)});
  for (std::size_t i = 0; i < which.size(); ++i) {
    std::copy_n(from.bytes.begin() + static_cast<std::ptrdiff_t>(which[i] * row), row,
                result.bytes.begin() + static_cast<std::ptrdiff_t>(i * row));
  }
  return result;
}

// A head that gets each batch after a fault has changed it.
class MistakenlyFed final : public Head {
 public:
  MistakenlyFed(Head& head, const Fault* fault, const Vector& target_norm)
      : head_(head), fault_(fault), target_norm_(target_norm) {}

  std::string name() const override { return head_.name(); }
  void reset() override { head_.reset(); }
  void rollback(std::size_t sequence, std::size_t length) override { head_.rollback(sequence, length); }
  void forward(const HeadInput& input, const ForwardOptions& options, StageSink& sink) override {
    if (fault_ == nullptr) return head_.forward(input, options, sink);
    HeadInput changed = input;
    StepMistakes steps;
    ProtocolMistake mistake{changed, steps, target_norm_};
    fault_->protocol(mistake);
    head_.forward(changed, options, sink);
  }

 private:
  Head& head_;
  const Fault* fault_;
  const Vector& target_norm_;
};

// Puts one more row into every sequence's cache and leaves it there.
void leave_a_rejected_row(Head& head, const HeadInput& next) {
  HeadInput rejected = next;
  for (auto& id : rejected.input_ids) id = (id + 1) % 64;
  TraceSink nobody([](Stage) { return false; });
  head.forward(rejected, {.step = 1, .spec_step_idx = 1, .forced = nullptr}, nobody);
}

HeadInput mistaken(const HeadInput& next, const HeadInput& first, const Trace& trace, const StepMistakes& mistakes) {
  HeadInput input = next;
  const auto rows = last_rows(first);
  if (mistakes.stale_hidden) input.hidden_states = picked_rows(first.hidden_states, rows);
  if (mistakes.unnormed_hidden) input.hidden_states = picked_rows(*hidden_of_step(trace, Stage::residual2), rows);
  for (std::size_t s = 0; s < rows.size(); ++s) {
    if (mistakes.position_not_advanced) input.positions[s] -= 1;
    if (mistakes.token_not_advanced) input.input_ids[s] = first.input_ids[rows[s]];
  }
  return input;
}

}  // namespace

Sighting look_with_audit(const std::filesystem::path& folder, const Fault& fault) {
  const Checkpoint checkpoint = open_checkpoint(folder);
  const bool unreadable =
      std::ranges::any_of(checkpoint.problems, [](const Problem& problem) { return makes_unreadable(problem.id); });
  if (unreadable) return look_at_problems(checkpoint, fault);
  Sighting sighting{.looked = true};
  const HeadConfig config = parse_head_config(checkpoint.config, (folder / "config.json").string());
  const Audit result = audit(checkpoint, config, {.loader = find_loader("vllm")});
  for (const auto& finding : result.findings) {
    if (finding.severity == Severity::info) continue;
    const bool place = names(finding, fault.where);
    if (sighting.seen && !(place && !sighting.right_place)) continue;
    sighting.seen = true;
    sighting.right_place = place;
    sighting.evidence = finding.id + " " + finding.subject;
  }
  return sighting;
}

Sighting look_with_compare(const ReferenceOf& reference, const Trace& candidate, const std::vector<HeadInput>& inputs,
                           const Fault& fault) {
  const ReferenceSide side{.config = reference.clean.config,
                           .weights = reference.clean.weights,
                           .conventions = reference.conventions,
                           .target_norm = target_norm(reference.clean)};
  ComparisonOptions options;
  options.steps = inputs.size();
  options.sequence_starts = inputs.front().cu_seqlens;
  const auto record = compare(candidate, make_reference_runs(side, inputs), options);
  // What is fed wrongly shows in the cumulative view alone: the replay takes the candidate's inputs as they are.
  const bool fed_wrongly = fault.kind == FaultKind::protocol;
  const std::string& first = fed_wrongly || record.first_failing_stage_in_replay.empty()
                                 ? record.first_divergent_stage
                                 : record.first_failing_stage_in_replay;
  const std::string stage = first.substr(0, first.find(".seq"));
  std::string cause;
  for (const auto& one : record.stages) {
    if (one.name == first) cause = one.likely_cause;
  }
  const std::string_view expected = likely_cause(fault.id);
  const bool explained = expected.empty() || cause == "the candidate matches " + std::string(expected);
  return {.looked = true,
          .seen = !record.pass,
          .right_place = stage == fault.where && explained,
          .evidence = cause.empty() ? first : first + ": " + cause};
}

Chain run_mistaken_chain(Head& head, const HeadInput& input, std::size_t steps, const StepMistakes& mistakes) {
  Chain chain = run_chain(head, input, 1);
  if (steps == 1) return chain;
  const HeadInput next = next_input(chain.trace, 0, input, drafted_tokens(chain.trace, 0, input));
  chain.inputs.push_back(next);
  if (mistakes.no_rollback) leave_a_rejected_row(head, next);
  auto* const reference = dynamic_cast<ReferenceHead*>(&head);
  if (mistakes.skip_stuck && reference != nullptr) reference->set_skip_topk(true);
  TraceSink sink;
  head.forward(mistaken(next, input, chain.trace, mistakes), {.step = 1, .spec_step_idx = 1, .forced = nullptr}, sink);
  for (auto& [key, tensor] : sink.take()) chain.trace.insert_or_assign(key, std::move(tensor));
  return chain;
}

AcceptancePoint acceptance_of(Head& head, std::span<const TargetTrace> traces, const Fault* fed_with,
                              const Vector& target_norm) {
  if (traces.empty()) return {};
  constexpr std::size_t kWholePassages = 1U << 20;  // a mistake of rows must see the sequence in one batch
  try {
    MistakenlyFed fed(head, fed_with, target_norm);
    const auto depth = study(fed, traces, {.depth = 1, .block_rows = kWholePassages}).depths.front();
    return {true, depth.greedy_rate(), depth.expected_rate()};
  } catch (const Error&) {
    return {true, 0, 0};  // NaN logits: nothing is accepted
  }
}

bool differ(const Trace& a, const Trace& b) {
  if (a.size() != b.size()) return true;
  for (auto left = a.begin(), right = b.begin(); left != a.end(); ++left, ++right) {
    if (left->first != right->first || left->second.shape != right->second.shape) return true;
    const auto x = to_f64(left->second.view());
    const auto y = to_f64(right->second.view());
    double square = 0;
    double error = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isfinite(x[i]) != std::isfinite(y[i])) return true;
      if (!std::isfinite(x[i])) continue;
      square += x[i] * x[i];
      error += (x[i] - y[i]) * (x[i] - y[i]);
    }
    constexpr double kFloor = 4 * 0x1p-23;
    if (error > kFloor * kFloor * square) return true;
  }
  return false;
}

}  // namespace mtpcheck
