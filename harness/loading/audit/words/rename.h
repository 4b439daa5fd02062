#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtpcheck {

/// A name that is there and one that is wanted, both without the layer's prefix.
struct RenameCandidate {
  std::string name;
  std::vector<std::size_t> shape;  ///< empty where it is not known
};

/// An unknown tensor that looks like a missing weight.
struct LikelyRename {
  std::size_t unknown = 0;  ///< indices into the two lists
  std::size_t wanted = 0;
};

/// How alike two dotted names are, from 0 to 1: their components are compared one by one, letters in common counted.
double likeness(const std::string& a, const std::string& b);

/// Pairs each wanted name with the unknown one most like it, each used once, best pair first. A pair of different
/// shapes, or with less than half of its letters in common, is none.
std::vector<LikelyRename> likely_renames(const std::vector<RenameCandidate>& unknown,
                                         const std::vector<RenameCandidate>& wanted);

}  // namespace mtpcheck
