"""One decode step of a Hy4 MTP layer in eager PyTorch: what cuda_bench compares with.

Operators are LibTorch's, one after the other, as an eager engine without kernels of its own runs them: fused where
PyTorch fuses (linear, softmax), attention in its absorbed form over gathered latents, experts one by one, only those in
use. Which those are is given, so that nothing waits for the device. Quantised weights are decoded in each call.
"""

import dataclasses

import torch
from torch.nn import functional


@dataclasses.dataclass(frozen=True)
class Shape:
    hidden: int
    vocabulary: int
    q_rank: int
    kv_rank: int
    heads: int
    nope: int
    rope: int
    value: int
    index_heads: int
    index_dims: int
    top_k: int
    experts: int
    used_experts: int
    inner: int
    eps: float = 1e-5
    index_eps: float = 1e-6
    rope_theta: float = 1e7
    swiglu_limit: float = 10.0
    expert_scale: float = 2.827


HY4_PREVIEW = Shape(hidden=6144, vocabulary=120832, q_rank=2048, kv_rank=512, heads=64, nope=192, rope=64, value=256,
                    index_heads=32, index_dims=128, top_k=2048, experts=256, used_experts=8, inner=2048)


@dataclasses.dataclass
class Quantised:
    """E4M3 codes [..., R, C] and their scales, one a block of `block` rows and columns that divide R and C."""

    codes: torch.Tensor
    scales: torch.Tensor  # [..., R / block[0], C / block[1]], float32 or E8M0
    block: tuple[int, int]

    def __getitem__(self, index: int) -> "Quantised":
        return Quantised(self.codes[index], self.scales[index], self.block)

    def decoded(self, dtype: torch.dtype) -> torch.Tensor:
        rows, cols = self.codes.shape
        cells = self.codes.to(torch.float32).view(rows // self.block[0], self.block[0], cols // self.block[1], self.block[1])
        return (cells * self.scales.to(torch.float32)[:, None, :, None]).view(rows, cols).to(dtype)


def linear(x: torch.Tensor, weight: torch.Tensor | Quantised) -> torch.Tensor:
    return functional.linear(x, weight.decoded(x.dtype) if isinstance(weight, Quantised) else weight)


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return functional.rms_norm(x, x.shape[-1:], weight, eps)


@dataclasses.dataclass
class Caches:
    """[T, S, ...]: a sequence a token; its own row is the last."""

    latents: torch.Tensor  # [T, S, Lkv + r]
    index_keys: torch.Tensor  # [T, S, d]


@dataclasses.dataclass
class Rows:
    """A step's rows. `experts`: for each expert in use its tokens and which of their choices it is; None: routed."""

    ids: torch.Tensor  # [T]
    positions: torch.Tensor  # [T]
    hidden: torch.Tensor  # [T, H]
    experts: list[tuple[int, torch.Tensor, torch.Tensor]] | None = None


class Layer:
    """Weights by their published names, without the layer's prefix; experts stacked."""

    def __init__(self, shape: Shape, weights: dict):
        self.shape = shape
        self.w = weights
        kv_b = weights["self_attn.kv_b_proj.weight"]
        kv_b = kv_b.decoded(torch.bfloat16) if isinstance(kv_b, Quantised) else kv_b
        kv_b = kv_b.view(shape.heads, shape.nope + shape.value, shape.kv_rank)
        self.key_up = kv_b[:, :shape.nope].contiguous()
        self.value_up = kv_b[:, shape.nope:].contiguous()
        even = torch.arange(0, shape.rope, 2, device=kv_b.device, dtype=torch.float64)
        self.frequencies = shape.rope_theta ** (-even / shape.rope)

    def rotated(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Neighbouring pairs of the last r entries of x [T, heads, d]."""
        turned, kept = x[..., -self.shape.rope:], x[..., :-self.shape.rope]
        angle = (positions[:, None].to(torch.float64) * self.frequencies).to(wide(x.dtype))[:, None, :]
        real, imaginary = turned.to(angle.dtype).unflatten(-1, (-1, 2)).unbind(-1)
        pair = (real * angle.cos() - imaginary * angle.sin(), real * angle.sin() + imaginary * angle.cos())
        return torch.cat([kept, torch.stack(pair, -1).flatten(-2).to(x.dtype)], -1)

    def step(self, rows: Rows, caches: Caches) -> torch.Tensor:
        """Logits [T, V] in the wide type."""
        s, w = self.shape, self.w
        embed = w["embed_tokens"][rows.ids].masked_fill((rows.positions == 0)[:, None], 0)
        both = torch.cat([rms_norm(embed, w["enorm.weight"], s.eps), rms_norm(rows.hidden, w["hnorm.weight"], s.eps)], -1)
        residual = linear(both, w["eh_proj.weight"])
        x = rms_norm(residual, w["input_layernorm.weight"], s.eps)
        residual = residual + self.attention(x, rows, caches)
        x = rms_norm(residual, w["post_attention_layernorm.weight"], s.eps)
        residual = residual + self.mixture(x, rows)
        x = rms_norm(residual, w["final_layernorm.weight"], s.eps)
        return functional.linear(x, w["lm_head"]).to(wide(x.dtype))

    def attention(self, x: torch.Tensor, rows: Rows, caches: Caches) -> torch.Tensor:
        s, w, tokens = self.shape, self.w, x.shape[0]
        q_c = rms_norm(linear(x, w["self_attn.q_a_proj.weight"]), w["self_attn.q_a_layernorm.weight"], s.eps)
        q = linear(q_c, w["self_attn.q_b_proj.weight"]).view(tokens, s.heads, s.nope + s.rope)
        q = self.rotated(q, rows.positions)
        kv_a = linear(x, w["self_attn.kv_a_proj_with_mqa.weight"])
        latent = rms_norm(kv_a[:, :s.kv_rank], w["self_attn.kv_a_layernorm.weight"], s.eps)
        key = self.rotated(kv_a[:, None, s.kv_rank:], rows.positions)[:, 0]
        caches.latents[:, -1] = torch.cat([latent, key], -1)
        chosen = self.chosen_keys(x, q_c, rows, caches)  # [T, k]
        gathered = caches.latents.gather(1, chosen[:, :, None].expand(-1, -1, s.kv_rank + s.rope))  # [T, k, Lkv + r]
        query = torch.cat([torch.einsum("thn,hnl->thl", q[..., :s.nope], self.key_up), q[..., s.nope:]], -1)
        logits = (torch.matmul(query, gathered.mT) * (s.nope + s.rope) ** -0.5).to(wide(x.dtype))
        sink = w["self_attn.learnable_sink_param"].to(logits.dtype).view(1, -1, 1).expand(tokens, -1, 1)
        weights = torch.cat([logits, sink], -1).softmax(-1)[..., :-1].to(x.dtype)
        out = torch.matmul(weights, gathered[..., :s.kv_rank])  # [T, N, Lkv]
        out = torch.einsum("thl,hvl->thv", out, self.value_up).flatten(1)
        return linear(out * linear(x, w["self_attn.linear_gate.weight"]).sigmoid(), w["self_attn.o_proj.weight"])

    def chosen_keys(self, x: torch.Tensor, q_c: torch.Tensor, rows: Rows, caches: Caches) -> torch.Tensor:
        s, w = self.shape, self.w
        q = linear(q_c, w["self_attn.indexer.wq_b.weight"]).view(-1, s.index_heads, s.index_dims)
        q = self.rotated(q, rows.positions)
        key = functional.layer_norm(linear(x, w["self_attn.indexer.wk.weight"]), (s.index_dims,),
                                    w["self_attn.indexer.k_norm.weight"], w["self_attn.indexer.k_norm.bias"], s.index_eps)
        caches.index_keys[:, -1] = self.rotated(key[:, None], rows.positions)[:, 0]
        weights = linear(x, w["self_attn.indexer.weights_proj.weight"]) * (s.index_dims * s.index_heads) ** -0.5
        products = torch.matmul(q, caches.index_keys.mT).relu()  # [T, h, S]
        scores = torch.matmul(weights[:, None].to(products.dtype), products)[:, 0]
        return self.largest(scores, min(s.top_k, scores.shape[1]))

    @staticmethod
    def largest(scores: torch.Tensor, count: int) -> torch.Tensor:
        """Of equal scores any, as topk has it."""
        return scores.topk(count, sorted=False).indices

    def swiglu(self, x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, limit: float) -> torch.Tensor:
        gate, up = linear(x, gate), linear(x, up)
        if limit > 0:
            gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return functional.silu(gate) * up

    def mixture(self, x: torch.Tensor, rows: Rows) -> torch.Tensor:
        s, w = self.shape, self.w
        scores = functional.linear(x.to(wide(x.dtype)), w["mlp.gate.weight"].to(wide(x.dtype))).sigmoid()
        chosen = (scores + w["mlp.gate.e_score_correction_bias"]).topk(s.used_experts).indices
        used = rows.experts
        if used is None:  # which experts are used is known only after a look at them
            used = [(e, *(chosen == e).nonzero(as_tuple=True)) for e in chosen.unique().tolist()]
        else:
            chosen = torch.empty_like(chosen)
            for expert, tokens, choices in used:
                chosen[tokens, choices] = expert
        weights = scores.gather(1, chosen)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * s.expert_scale
        out = torch.zeros(x.shape, dtype=wide(x.dtype), device=x.device)
        for expert, tokens, choices in used:
            act = self.swiglu(x[tokens], w["mlp.experts.gate_proj"][expert], w["mlp.experts.up_proj"][expert], s.swiglu_limit)
            y = linear(act, w["mlp.experts.down_proj"][expert])
            out.index_add_(0, tokens, y.to(out.dtype) * weights[tokens, choices, None].to(out.dtype))
        shared = linear(self.swiglu(x, w["mlp.shared_experts.gate_proj.weight"], w["mlp.shared_experts.up_proj.weight"], 0),
                        w["mlp.shared_experts.down_proj.weight"])
        return out.to(x.dtype) + shared
