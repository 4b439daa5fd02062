#include "reports/html/heat.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace mtpcheck::reports {
namespace {

// RFC 4648, section 4.
std::string base64(std::span<const std::uint8_t> bytes) {
  static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k) word = word << 8 | (k < left ? bytes[i + k] : 0u);
    for (std::size_t k = 0; k < 4; ++k) text += k <= left ? kAlphabet[(word >> (18 - 6 * k)) & 63u] : '=';
  }
  return text;
}

}  // namespace

std::uint8_t heat_cell(double error, double allowance) {
  if (!std::isfinite(error)) return 255;
  if (error == 0) return 0;
  const double share = error / allowance;
  if (!std::isfinite(share)) return 254;
  return static_cast<std::uint8_t>(std::clamp(std::lround(1 + 24 * (std::log10(share) + 6)), 1L, 254L));
}

std::string heat_row(const ProfileRecord& profile) {
  std::vector<std::uint8_t> cells(std::min(profile.token_rms.size(), profile.token_allowance.size()));
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = heat_cell(profile.token_rms[i], profile.token_allowance[i]);
  return base64(cells);
}

}  // namespace mtpcheck::reports
