#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace mtpcheck {

/// Philox4x32-10, a counter-based generator: four words of output are a pure function of (key, counter), so that a seed
/// means the same numbers on every machine, in every order and for any number of threads.
///
/// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". The CUDA sampler uses the same function.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 2> key, std::array<std::uint32_t, 4> counter) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// One of 2^64 independent streams of a seed. Draw i of a stream is `at(i)`; there is no state to carry.
class RandomStream {
 public:
  constexpr RandomStream(std::uint64_t seed, std::uint64_t stream)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}, stream_(stream) {}

  /// 64 random bits.
  constexpr std::uint64_t bits(std::uint64_t index) const {
    const auto words = philox(key_, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                                     static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)});
    return std::uint64_t{words[1]} << 32 | words[0];
  }

  /// Uniform in [0, 1): a multiple of 2^−53.
  constexpr double uniform(std::uint64_t index) const { return static_cast<double>(bits(index) >> 11) * 0x1p-53; }

  /// Uniform in 0 … bound−1, without the bias of a remainder (Lemire 2019, one multiplication: the bias left is below
  /// bound · 2^−64).
  constexpr std::uint64_t below(std::uint64_t index, std::uint64_t bound) const {
    return static_cast<std::uint64_t>((static_cast<__uint128_t>(bits(index)) * bound) >> 64);
  }

  /// Standard normal, by Box and Muller.
  double normal(std::uint64_t index) const {
    const auto words = philox(key_, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                                     static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)});
    const double u = (static_cast<double>(words[0]) + 1.0) * 0x1p-32;  // (0, 1]
    const double v = static_cast<double>(words[2]) * 0x1p-32;
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint64_t stream_;
};

}  // namespace mtpcheck
