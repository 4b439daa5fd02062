#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/checkpoint/header_set.h"
#include "harness/loading/meaning/meaning.h"
#include "reference/model/config.h"

namespace mtpcheck::properties {

enum class Format : std::uint8_t { bf16, block, mxfp8, channel, tensor };

/// A checkpoint that RapidCheck draws, in words a person can read.
struct World {
  std::size_t hidden = 8, q_lora = 4, kv_lora = 3, heads = 2, nope = 3, rope = 2, value = 2;
  std::size_t experts = 2, inner = 4, shared = 1, layers = 1, vocabulary = 5;
  bool sparse_attention = true;
  bool sparse_mlp = true;
  bool gate = true;
  bool sink = true;
  bool tied = false;
  Format format = Format::bf16;
  bool packed = false;       ///< experts in one tensor
  bool layers_form = false;  ///< model.layers.{L+N}. instead of model.mtp_layers.N.
  std::uint32_t seed = 0;    ///< of the bytes

  nlohmann::json json() const;
  HeadConfig config() const { return parse_head_config(json(), "config.json"); }
};

void showValue(const World& world, std::ostream& out);

/// Ragged sizes, sparse and dense attention, experts or one MLP, every format and spelling.
World any_world();

/// The tensors of a world, bytes and all. Linear weights are quantised in its format, with scales under one of the
/// names that mean the same; block scales are [2, 3] blocks, so that small matrices have ragged ones.
struct Files {
  HeaderSet headers;
  std::vector<std::vector<std::byte>> bytes;  ///< what the headers point into

  /// What a tensor belongs to, so that its loss can be told from the problems: weight names, as Meaning gives them.
  std::map<std::string, std::vector<std::string>> weights_of;
};

Files files_of(const World& world);

/// Every logical weight of the head, decoded by definition, by "layer name". NaN compares by bits.
std::map<std::string, std::vector<double>> decoded(const World& world, const HeaderSet& headers);

}  // namespace mtpcheck::properties
