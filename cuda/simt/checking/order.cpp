#include "cuda/simt/checking/order.h"

#include <algorithm>

namespace simt::checking {

void Order::begin_block(unsigned threads) {
  first_interval_ = ++interval_;
  clocks_.assign(threads, 1);
  known_.resize((threads + warp_size - 1) / warp_size);
  used_.assign(known_.size(), true);
  forget_clocks();
}

void Order::block_barrier() {
  ++interval_;
  forget_clocks();
}

void Order::forget_clocks() {
  for (std::size_t warp = 0; warp < known_.size(); ++warp) {
    if (!used_[warp]) continue;
    used_[warp] = false;
    known_[warp] = {};
    const auto first = clocks_.begin() + static_cast<std::ptrdiff_t>(warp * warp_size);
    const auto lanes = std::min<std::ptrdiff_t>(warp_size, clocks_.end() - first);
    std::fill(first, first + lanes, 1u);
  }
}

void Order::warp_barrier(unsigned warp, unsigned lanes) {
  Known& known = known_[warp];
  used_[warp] = true;
  Clocks joined{};
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    if ((lanes >> lane & 1u) == 0) continue;
    known[lane][lane] = clocks_[warp * warp_size + lane]++;
    for (unsigned other = 0; other < warp_size; ++other) joined[other] = std::max(joined[other], known[lane][other]);
  }
  for (unsigned lane = 0; lane < warp_size; ++lane)
    if ((lanes >> lane & 1u) != 0) known[lane] = joined;
}

bool Order::ordered(unsigned earlier, std::uint32_t clock, unsigned later) const {
  if (earlier == later) return true;
  if (earlier / warp_size != later / warp_size) return false;
  return clock <= known_[later / warp_size][later % warp_size][earlier % warp_size];
}

}  // namespace simt::checking
