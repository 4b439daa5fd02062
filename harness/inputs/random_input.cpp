#include "harness/inputs/random_input.h"

#include <cstring>
#include <numeric>

#include "reference/random/philox.h"
#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

constexpr std::uint64_t kTokenStream = 0;
constexpr std::uint64_t kStateStream = 1;

// Irwin and Hall: twelve uniform numbers of 16 bits have variance 1 in units of 2^16. The sum is exact.
float deviate(const RandomStream& stream, std::uint64_t index) {
  std::int64_t sum = 0;
  for (std::uint64_t draw = 3 * index; draw < 3 * index + 3; ++draw) {
    const std::uint64_t bits = stream.bits(draw);
    for (unsigned shift = 0; shift < 64; shift += 16) sum += static_cast<std::int64_t>(bits >> shift & 0xFFFFU);
  }
  return static_cast<float>(sum - 6 * 65535) / 65536.0F;
}

}  // namespace

HeadInput random_head_input(const HeadConfig& config, std::size_t tokens, std::uint64_t seed) {
  if (tokens == 0) throw usage_error("--tokens 0: at least one row is needed");
  const RandomStream ids(seed, kTokenStream);
  const RandomStream states(seed, kStateStream);
  HeadInput input;
  input.input_ids.resize(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    input.input_ids[i] = static_cast<std::int64_t>(ids.below(i, config.vocab_size));
  }
  input.positions.resize(tokens);
  std::iota(input.positions.begin(), input.positions.end(), std::int64_t{0});
  input.hidden_states = make_tensor(Dtype::bf16, {tokens, config.hidden_size});
  std::byte* at = input.hidden_states.bytes.data();
  for (std::size_t i = 0; i < tokens * config.hidden_size; ++i, at += sizeof(std::uint16_t)) {
    const std::uint16_t value = f32_to_bf16(deviate(states, i));
    std::memcpy(at, &value, sizeof(value));
  }
  input.cu_seqlens = {0, static_cast<std::int64_t>(tokens)};
  return input;
}

}  // namespace mtpcheck
