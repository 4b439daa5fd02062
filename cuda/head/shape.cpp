#include "cuda/head/shape.h"

#include <fmt/format.h>

#include "reference/tensor/error.h"

namespace mtpcheck::cuda {
namespace {

int narrow(std::size_t size, const char* key) {
  constexpr std::size_t limit = 1u << 24;
  if (size <= limit) return static_cast<int>(size);
  throw input_error(fmt::format("{} is {}; the CUDA head takes at most {}", key, size, limit));
}

}  // namespace

HeadShape shape_of(const HeadConfig& c) {
  HeadShape shape{.hidden = narrow(c.hidden_size, "hidden_size"),
                  .vocabulary = narrow(c.vocab_size, "vocab_size"),
                  .q_rank = narrow(c.q_lora_rank, "q_lora_rank"),
                  .kv_rank = narrow(c.kv_lora_rank, "kv_lora_rank"),
                  .heads = narrow(c.num_attention_heads, "num_attention_heads"),
                  .nope = narrow(c.qk_nope_head_dim, "qk_nope_head_dim"),
                  .rope = narrow(c.qk_rope_head_dim, "qk_rope_head_dim"),
                  .value = narrow(c.v_head_dim, "v_head_dim")};
  if (c.sparse_attention) {
    shape.index_heads = narrow(c.index_n_heads, "index_n_heads");
    shape.index_dims = narrow(c.index_head_dim, "index_head_dim");
    shape.top_k = narrow(c.index_topk, "index_topk");
  }
  if (c.sparse_mlp) {
    shape.experts = narrow(c.n_routed_experts, "n_routed_experts");
    shape.used_experts = narrow(c.num_experts_per_tok, "num_experts_per_tok");
    shape.inner = narrow(c.moe_intermediate_size, "moe_intermediate_size");
    shape.plain_inner = narrow(c.moe_intermediate_size * c.n_shared_experts, "n_shared_experts");
  } else {
    shape.plain_inner = narrow(c.intermediate_size, "intermediate_size");
  }
  return shape;
}

}  // namespace mtpcheck::cuda
