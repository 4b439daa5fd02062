#pragma once

#include <string>
#include <vector>

#include "harness/gate/baseline.h"
#include "reports/record/report.h"

namespace mtpcheck {

/// A figure of a report that a baseline can limit. `low` and `high` are its 95 % interval, both equal to value without
/// one.
struct Measured {
  std::string item;
  Bound bound = Bound::at_most;
  double value = 0;
  double low = 0;
  double high = 0;
  std::string detail;  ///< a finding's message, a stage's reason
  bool wrong = false;  ///< fails where no limit covers it
};

/// Everything in a report that can get worse:
///   stage NAME cumulative | replay     share of the allowance that was used (missing or non-finite: infinite)
///   stage NAME unexcused               rows of a selection with unexcused flips
///   finding ID SUBJECT                 findings of severity error or warning
///   unmatched                          tensors of a comparison that have no partner; limited to 0 unless agreed
///   coverage PARAMETER                 share of its elements that were written
///   coverage ENGINE PARAMETER          the same, of each of several engines
///   engines FIRST / SECOND same head   1: they would run the same head, 0: not, or it cannot be told
///   acceptance SERIES depth K greedy | expected   where the traces can tell it, with its interval
///   time NAME                          ratios in the table "times"
std::vector<Measured> measure(const reports::Report& report);

enum class ItemState : std::uint8_t { held, worsened, fresh, fixed, missing };

/// "held", "worsened", "new", "fixed", "missing"
std::string_view to_string(ItemState state);

struct GateItem {
  ItemState state = ItemState::held;
  Measured measured;  ///< of a fixed or missing item: only its name
  Limit limit;        ///< of a new item: none
  std::string message;

  /// Worsened, missing, or new and wrong by itself.
  bool fails() const;
};

struct GateResult {
  std::vector<GateItem> items;

  /// No item fails.
  bool holds() const;
};

/// Compares a report with a baseline.
///   worsened   beyond its limit; an acceptance only where its whole interval is, since noise is no regression
///   new        not in the baseline: a finding, a stage beyond its allowance, or engines that end with different heads
///              fail; anything else is only listed
///   fixed      a known finding that is gone
///   missing    a limit whose figure the report does not have: a check that silently stopped fails the gate
GateResult judge(const reports::Report& report, const Baseline& baseline);

/// The baseline that this report would pass: its figures as limits, with the reasons of items that were there before.
/// An item that is new gets `reason`. Errors and times get `headroom` (0.1: a tenth more), since another host's
/// rounding is no regression; all limits are rounded outwards to three digits. Throws Error{input} for an item without
/// a finite figure: a limit that everything passes is none.
Baseline updated(const reports::Report& report, const Baseline& baseline, const std::string& reason,
                 double headroom = 0.1);

}  // namespace mtpcheck
