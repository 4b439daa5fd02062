#pragma once

#include "cuda/simt/qualifiers.h"

/// Shuffles, votes, matches and reductions among the lanes of a warp, as PTX defines shfl.sync, vote.sync, match.sync
/// and redux.sync.
///
/// All lanes that `mask` names and that exist must arrive at the same place with the same mask; the caller's bit must
/// be set. A lane that has exited, or a value taken from a lane that is not in the mask, is an error.
#if SIMT_ON_CPU

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace simt::machine {

enum class Shuffle { index, up, down, exclusive_or };
/// The value that `bits` has in the lane that (`shuffle`, `operand`, `width`) names.
std::uint64_t shuffle(const char* operation, Shuffle shuffle, unsigned mask, std::uint64_t bits, int operand, int width,
                      const Location& where);
/// Bit l is lane l's predicate.
unsigned ballot(const char* operation, unsigned mask, bool predicate, const Location& where);
/// The lanes whose bits are those of the caller.
unsigned match_any(unsigned mask, std::uint64_t bits, const Location& where);

enum class Reduction { add, minimum, maximum, bit_and, bit_or, bit_xor };
std::int64_t reduce(const char* operation, Reduction reduction, unsigned mask, std::int64_t value,
                    const Location& where);

template <class T>
T shuffle_value(const char* operation, Shuffle kind, unsigned mask, T value, int operand, int width,
                const Location& where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "a shuffle moves at most eight bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = shuffle(operation, kind, mask, bits, operand, width, where);
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

}  // namespace simt::machine

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              const simt::Location& where = simt::Location::current()) {
  return simt::machine::shuffle_value("__shfl_sync", simt::machine::Shuffle::index, mask, value, source, width, where);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 const simt::Location& where = simt::Location::current()) {
  return simt::machine::shuffle_value("__shfl_up_sync", simt::machine::Shuffle::up, mask, value,
                                      static_cast<int>(delta), width, where);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const simt::Location& where = simt::Location::current()) {
  return simt::machine::shuffle_value("__shfl_down_sync", simt::machine::Shuffle::down, mask, value,
                                      static_cast<int>(delta), width, where);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  const simt::Location& where = simt::Location::current()) {
  return simt::machine::shuffle_value("__shfl_xor_sync", simt::machine::Shuffle::exclusive_or, mask, value, lane_mask,
                                      width, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, const simt::Location& where = simt::Location::current()) {
  return simt::machine::ballot("__ballot_sync", mask, predicate != 0, where);
}

inline int __any_sync(unsigned mask, int predicate, const simt::Location& where = simt::Location::current()) {
  return simt::machine::ballot("__any_sync", mask, predicate != 0, where) != 0 ? 1 : 0;
}

inline int __all_sync(unsigned mask, int predicate, const simt::Location& where = simt::Location::current()) {
  return simt::machine::ballot("__all_sync", mask, predicate == 0, where) == 0 ? 1 : 0;
}

template <class T>
unsigned __match_any_sync(unsigned mask, T value, const simt::Location& where = simt::Location::current()) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "CUDA matches 4 or 8 bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return simt::machine::match_any(mask, bits, where);
}

template <class T>
T __reduce_add_sync(unsigned mask, T value, const simt::Location& where = simt::Location::current()) {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>, "redux.sync takes 32-bit integers");
  return static_cast<T>(simt::machine::reduce("__reduce_add_sync", simt::machine::Reduction::add, mask, value, where));
}

template <class T>
T __reduce_min_sync(unsigned mask, T value, const simt::Location& where = simt::Location::current()) {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>, "redux.sync takes 32-bit integers");
  return static_cast<T>(
      simt::machine::reduce("__reduce_min_sync", simt::machine::Reduction::minimum, mask, value, where));
}

template <class T>
T __reduce_max_sync(unsigned mask, T value, const simt::Location& where = simt::Location::current()) {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>, "redux.sync takes 32-bit integers");
  return static_cast<T>(
      simt::machine::reduce("__reduce_max_sync", simt::machine::Reduction::maximum, mask, value, where));
}

inline unsigned __reduce_or_sync(unsigned mask, unsigned value,
                                 const simt::Location& where = simt::Location::current()) {
  return static_cast<unsigned>(
      simt::machine::reduce("__reduce_or_sync", simt::machine::Reduction::bit_or, mask, value, where));
}

inline unsigned __reduce_and_sync(unsigned mask, unsigned value,
                                  const simt::Location& where = simt::Location::current()) {
  return static_cast<unsigned>(
      simt::machine::reduce("__reduce_and_sync", simt::machine::Reduction::bit_and, mask, value, where));
}

inline unsigned __reduce_xor_sync(unsigned mask, unsigned value,
                                  const simt::Location& where = simt::Location::current()) {
  return static_cast<unsigned>(
      simt::machine::reduce("__reduce_xor_sync", simt::machine::Reduction::bit_xor, mask, value, where));
}
// NOLINTEND(bugprone-reserved-identifier)

#endif
