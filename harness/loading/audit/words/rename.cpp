#include "harness/loading/audit/words/rename.h"

#include <algorithm>

namespace mtpcheck {

namespace {

/// Length of the longest common subsequence.
std::size_t letters_in_common(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1, 0);
  for (const char letter : a) {
    std::size_t diagonal = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = letter == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

double likeness(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return 0;
  return 2.0 * static_cast<double>(letters_in_common(a, b)) / static_cast<double>(a.size() + b.size());
}

std::vector<LikelyRename> likely_renames(const std::vector<RenameCandidate>& unknown,
                                         const std::vector<RenameCandidate>& wanted) {
  struct Scored {
    double likeness;
    LikelyRename pair;
  };
  constexpr std::size_t kMany = 400;  // beyond this a person wants no list, and the pairs would take minutes
  std::vector<Scored> scored;
  for (std::size_t u = 0; u < std::min(unknown.size(), kMany); ++u) {
    for (std::size_t w = 0; w < std::min(wanted.size(), kMany); ++w) {
      const bool shapes_fit =
          unknown[u].shape.empty() || wanted[w].shape.empty() || unknown[u].shape == wanted[w].shape;
      if (!shapes_fit) continue;
      const double alike = likeness(unknown[u].name, wanted[w].name);
      if (alike >= 0.5) scored.push_back({alike, {u, w}});
    }
  }
  std::ranges::stable_sort(scored, [](const Scored& a, const Scored& b) { return a.likeness > b.likeness; });
  std::vector<LikelyRename> pairs;
  std::vector<bool> used_unknown(unknown.size());
  std::vector<bool> used_wanted(wanted.size());
  for (const auto& [alike, pair] : scored) {
    if (used_unknown[pair.unknown] || used_wanted[pair.wanted]) continue;
    used_unknown[pair.unknown] = used_wanted[pair.wanted] = true;
    pairs.push_back(pair);
  }
  return pairs;
}

}  // namespace mtpcheck
