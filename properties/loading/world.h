#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/checkpoint/header_set.h"
#include "harness/loading/plan/plan.h"
#include "harness/loading/plan/request.h"

namespace mtpcheck::properties {

/// How the linear weights of a checkpoint are stored.
enum class Storage : std::uint8_t { bf16, fp8_block, mxfp8, fp8_channel };

enum class Engine : std::uint8_t { vllm, sglang };

/// A faultless checkpoint that an engine accepts, and the group of ranks that loads it.
struct LoadWorld {
  Engine engine = Engine::vllm;
  std::size_t hidden = 64;
  std::size_t q_rank = 32;
  std::size_t kv_rank = 32;
  std::size_t heads_a_rank = 1;
  std::size_t nope = 6, rope = 2, value = 4;
  std::size_t experts = 2;
  std::size_t inner_a_rank = 4;  ///< rows of an expert's gate on one rank
  std::size_t vocabulary = 70;
  bool sparse = true;
  bool packed = false;  ///< all experts in one tensor
  Storage storage = Storage::bf16;
  std::size_t ranks = 1;
  bool expert_parallel = false;

  nlohmann::json json() const;
  HeadConfig config() const { return parse_head_config(json(), "config.json"); }
};

void showValue(const LoadWorld& world, std::ostream& out);

/// SGLang loads less: BF16, and MXFP8 where experts are split; always with an indexer.
LoadWorld any_load_world(Engine engine = Engine::vllm);

/// One of the world's ranks.
std::size_t any_rank(const LoadWorld& world);

/// Headers with bytes.
struct LoadFiles {
  HeaderSet headers;
  std::vector<std::vector<std::byte>> bytes;  ///< what the headers point into
};

/// The world's tensors. Their bytes depend on a logical weight's name and not on the layout: packed and split hold the
/// same numbers.
LoadFiles load_files(const LoadWorld& world);

/// The engine's plan of one rank.
LoadPlan plan_of_rank(const LoadWorld& world, const HeaderSet& headers, std::size_t rank);

/// Every parameter of one rank, carried out: unwritten elements are NaN.
std::vector<Tensor> parameters_of_rank(const LoadWorld& world, const HeaderSet& headers, std::size_t rank);

}  // namespace mtpcheck::properties
