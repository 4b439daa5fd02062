#include "cuda/simt/warp.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "cuda/simt/machine/block.h"

namespace simt::machine {
namespace {

/// One lane's part in a shuffle.
struct ShuffleDeposit {
  std::uint64_t value;
  unsigned source;
  std::uint64_t result;
};

/// The lane that PTX's shfl.sync reads: `width` lanes form a segment; who would leave it keeps its own value.
unsigned source_lane(Shuffle kind, unsigned lane, int operand, int width) {
  const auto size = static_cast<unsigned>(width);
  const unsigned first = lane & ~(size - 1);
  const unsigned last = first + size - 1;
  switch (kind) {
    case Shuffle::index:
      return first | (static_cast<unsigned>(operand) & (size - 1));
    case Shuffle::up: {
      const unsigned delta = static_cast<unsigned>(operand) & 31u;
      return lane >= first + delta ? lane - delta : lane;
    }
    case Shuffle::down: {
      const unsigned source = lane + (static_cast<unsigned>(operand) & 31u);
      return source <= last ? source : lane;
    }
    case Shuffle::exclusive_or: {
      const unsigned source = lane ^ (static_cast<unsigned>(operand) & 31u);
      return source <= last ? source : lane;  // an earlier segment may be read
    }
  }
  return lane;
}

void complete_shuffle(Block& block, void* const* deposits, unsigned mask) {
  for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
    auto& mine = *static_cast<ShuffleDeposit*>(deposits[lane]);
    if ((mask >> mine.source & 1u) == 0)
      block.fail_lane(lane, fmt::format("{}: reads lane {}, which is not among the lanes {:#010x} that take part",
                                        block.thread().place.describe(), mine.source, mask));
    mine.result = static_cast<ShuffleDeposit*>(deposits[mine.source])->value;
  }
}

/// One lane's part in whatever gives all lanes the same result.
struct VoteDeposit {
  std::uint64_t value;
  std::uint64_t result;
};

template <class Visit>
void for_each_lane(void* const* deposits, unsigned mask, Visit visit) {
  for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
    visit(lane, *static_cast<VoteDeposit*>(deposits[lane]));
  }
}

void complete_ballot(Block& /*block*/, void* const* deposits, unsigned mask) {
  unsigned votes = 0;
  for_each_lane(deposits, mask,
                [&](unsigned lane, VoteDeposit& vote) { votes |= (vote.value != 0 ? 1u : 0u) << lane; });
  for_each_lane(deposits, mask, [&](unsigned, VoteDeposit& vote) { vote.result = votes; });
}

void complete_match(Block& /*block*/, void* const* deposits, unsigned mask) {
  for_each_lane(deposits, mask, [&](unsigned, VoteDeposit& mine) {
    mine.result = 0;
    for_each_lane(deposits, mask, [&](unsigned lane, const VoteDeposit& other) {
      if (other.value == mine.value) mine.result |= 1u << lane;
    });
  });
}

std::int64_t combine(Reduction reduction, std::int64_t x, std::int64_t y) {
  switch (reduction) {
    case Reduction::add:
      return x + y;
    case Reduction::minimum:
      return std::min(x, y);
    case Reduction::maximum:
      return std::max(x, y);
    case Reduction::bit_and:
      return x & y;
    case Reduction::bit_or:
      return x | y;
    case Reduction::bit_xor:
      return x ^ y;
  }
  return x;
}

template <Reduction reduction>
void complete_reduction(Block& /*block*/, void* const* deposits, unsigned mask) {
  bool first = true;
  std::int64_t total = 0;
  for_each_lane(deposits, mask, [&](unsigned, const VoteDeposit& vote) {
    const auto value = static_cast<std::int64_t>(vote.value);
    total = first ? value : combine(reduction, total, value);
    first = false;
  });
  for_each_lane(deposits, mask, [&](unsigned, VoteDeposit& vote) { vote.result = static_cast<std::uint64_t>(total); });
}

Block::Completion completion_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::add:
      return complete_reduction<Reduction::add>;
    case Reduction::minimum:
      return complete_reduction<Reduction::minimum>;
    case Reduction::maximum:
      return complete_reduction<Reduction::maximum>;
    case Reduction::bit_and:
      return complete_reduction<Reduction::bit_and>;
    case Reduction::bit_or:
      return complete_reduction<Reduction::bit_or>;
    case Reduction::bit_xor:
      return complete_reduction<Reduction::bit_xor>;
  }
  return complete_reduction<Reduction::add>;
}

std::uint64_t vote(const char* operation, unsigned mask, std::uint64_t value, Block::Completion complete,
                   const Location& where) {
  VoteDeposit mine{value, 0};
  current_block(operation).wait_for_warp({operation, where}, mask, &mine, complete);
  return mine.result;
}

}  // namespace

std::uint64_t shuffle(const char* operation, Shuffle shuffle, unsigned mask, std::uint64_t bits, int operand, int width,
                      const Location& where) {
  Block& block = current_block(operation);
  const Place place{operation, where};
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width)))
    block.fail(block.thread(), fmt::format("{}: width {} is not 1, 2, 4, 8, 16 or 32", place.describe(), width));
  ShuffleDeposit mine{bits, source_lane(shuffle, block.thread().lane, operand, width), 0};
  block.wait_for_warp(place, mask, &mine, complete_shuffle);
  return mine.result;
}

unsigned ballot(const char* operation, unsigned mask, bool predicate, const Location& where) {
  return static_cast<unsigned>(vote(operation, mask, predicate ? 1 : 0, complete_ballot, where));
}

unsigned match_any(unsigned mask, std::uint64_t bits, const Location& where) {
  return static_cast<unsigned>(vote("__match_any_sync", mask, bits, complete_match, where));
}

std::int64_t reduce(const char* operation, Reduction reduction, unsigned mask, std::int64_t value,
                    const Location& where) {
  return static_cast<std::int64_t>(
      vote(operation, mask, static_cast<std::uint64_t>(value), completion_of(reduction), where));
}

}  // namespace simt::machine
