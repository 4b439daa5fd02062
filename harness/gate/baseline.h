#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace mtpcheck {

/// Which way a figure may not go.
enum class Bound : std::uint8_t {
  at_most,   ///< `<=`: errors, time ratios
  at_least,  ///< `>=`: coverage, acceptance
  allowed,   ///< a finding that is known
};

/// One line of a baseline: what may not get worse, how far it may go, and why that was agreed.
struct Limit {
  std::string
      item;  ///< "stage q_rope cumulative", "acceptance reference f32 depth 1 greedy", "finding partial w13_weight"
  Bound bound = Bound::at_most;
  double value = 0;
  std::string reason;
  int line = 0;  ///< in the file, from 1
};

/// The text that a repository keeps and reviews:
///
///   # comments and empty lines are kept by nobody and read by everybody
///   stage q_rope cumulative <= 0.62          # bf16 on two hosts, 0.51 and 0.55
///   acceptance reference f32 depth 1 greedy >= 0.8810   # 40 passages, 2026-11
///   finding unknown-tensor model.extra.weight allowed   # exported by mistake, harmless
///
/// An item is everything before the bound; the reason everything after `#`, and must not be empty.
struct Baseline {
  std::vector<Limit> limits;
};

/// Throws Error{input} with file and line for what is not of this form, for a bound that is not finite, for an item
/// twice and for a missing reason.
Baseline parse_baseline(const std::string& text, const std::string& file);

Baseline read_baseline(const std::filesystem::path& path);

/// The text of a baseline, items sorted, bounds aligned. Throws Error{input} for a limit that would not be one line, or
/// whose bound is not finite.
std::string to_text(const Baseline& baseline);

}  // namespace mtpcheck
