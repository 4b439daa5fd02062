#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/record/comparison.h"

namespace mtpcheck::reports {

/// One cell of the token × stage heat map: a token's error as a share of its allowance, on a logarithmic scale.
/// 0: exact; 255: not finite; else 1 + 24·(log10(share) + 6), clamped to 1 … 254.
std::uint8_t heat_cell(double error, double allowance);

/// A stage's row of the heat map, base64; empty where the stage has no profile by token.
std::string heat_row(const ProfileRecord& profile);

}  // namespace mtpcheck::reports
