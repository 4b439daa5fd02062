// What compare must give as the likely cause of a fault, where it is one of the known ways of going wrong.

#include <algorithm>
#include <iterator>
#include <utility>

#include "harness/faults/catalogue/fault.h"

namespace mtpcheck {
namespace {

constexpr std::pair<std::string_view, std::string_view> kCauses[] = {
    {"gate-up-swapped", "gate and up exchanged"},
    {"gate-up-swapped-everywhere", "gate and up exchanged"},
    {"gate-up-interleaved", "gate and up taken alternately"},
    {"scales-ignored", "quantised weights without their scales"},
    {"mx-scales-ignored", "quantised weights without their scales"},
    {"rope-interleaved", "interleaved RoPE"},
    {"indexer-rope-interleaved", "interleaved RoPE"},
    {"rope-theta", "a rope_theta of 1e+06"},
    {"indexer-rope-first-dims", "RoPE on the first dimensions of the indexer's heads"},
    {"index-norm-without-mean", "RMSNorm in place of the indexer's LayerNorm"},
    {"index-norm-without-bias", "the indexer's LayerNorm without its bias"},
    {"index-norm-bf16", "the indexer's LayerNorm in bf16"},
    {"latent-eps-transformers", "latent_norm_eps = 1e-06"},
    {"mask-at-first-row-only", "a mask of the first row of the batch only"},
    {"dense-attention", "dense attention"},
    {"sink-ignored", "attention without sinks"},
    {"softmax-scale", "a softmax scale of the nope dimensions alone"},
    {"gate-dropped", "no output gate"},
    {"gate-without-sigmoid", "an output gate without its sigmoid"},
    {"bias-ignored", "no correction bias"},
    {"bias-in-weights", "the correction bias in the weights"},
    {"softmax-router", "a softmax router"},
    {"weights-not-normalised", "weights that are not normalised"},
    {"scaling-missing", "no routed_scaling_factor"},
    {"scaling-twice", "routed_scaling_factor applied twice"},
    {"scaling-on-shared", "routed_scaling_factor on the shared expert too"},
    {"weights-of-next-choice", "each expert with its neighbour's weight"},
    {"clamp-dropped", "no SwiGLU clamp"},
    {"shared-dropped", "no shared expert"},
    {"eh-halves-swapped", "[hnorm | enorm] in place of [enorm | hnorm]"},
    {"enorm-skipped", "no enorm"},
    {"hnorm-skipped", "no hnorm"},
    {"no-position-zero-mask", "embeddings that are not zero at position 0"},
    {"norm-plus-one", "a norm weight of 1 + w"},
    {"position-not-advanced", "positions shifted by -1"},
    {"packed-transposed", "[gate; up] read transposed"},
    {"hidden-before-final-norm", "the target's hidden state before its final norm"},
    {"hidden-normed-twice", "the target's hidden state with its final norm applied twice"},
    {"hidden-of-previous-row", "hidden states one row late"},
};

}  // namespace

std::string_view likely_cause(std::string_view fault) {
  const auto* const found = std::ranges::find(kCauses, fault, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kCauses) ? std::string_view() : found->second;
}

}  // namespace mtpcheck
