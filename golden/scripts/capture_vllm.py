"""Writes golden/vllm-capture: vLLM's own HYV4MTP, run once on a CPU under harness/capture.

    python capture_vllm.py --golden .. --out ../vllm-capture

dump.safetensors holds every stage of the first 72 rows of a passage in float32 arithmetic, and the inputs; digests.json
the parameters' digests at the return of load_weights of a bfloat16 model. tiny-hy4 was trained with half-split RoPE and
vLLM rotates adjacent pairs: the dump is what vLLM makes of these files, which is not what they mean.

With vllm 0.33.0, its requirements and torch 2.14.0 in the environment; no GPU, no CUDA library (for those that the
wheels name, see scripts/torch_stand_ins.py). vLLM's own: configuration, construction, loader, HYV4MTP.forward down to
its norms, linears, gate and rotary embedding, the indexer's preparation, compute_logits. Replaced, for they are GPU
kernels: sparse attention, the indexer's top-k, the routed experts; and the indexer's query is not quantised. What the
replaced kernels compute is reported to the capture by hand.
"""

import argparse
import os
import sys
from pathlib import Path
from types import SimpleNamespace

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "harness" / "capture"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import vllm.platforms  # noqa: E402
from vllm.platforms.cpu import CpuPlatform  # noqa: E402

vllm.platforms._current_platform = CpuPlatform()

import vllm.distributed.parallel_state as parallel_state  # noqa: E402
import vllm.model_executor.layers.attention.mla_attention as mla_attention  # noqa: E402
from vllm.config import (  # noqa: E402
    CacheConfig, DeviceConfig, LoadConfig, ModelConfig, ParallelConfig, SpeculativeConfig, VllmConfig,
    set_current_vllm_config)
from vllm.model_executor.custom_op import CustomOp  # noqa: E402
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader  # noqa: E402
from vllm.model_executor.model_loader.utils import initialize_model  # noqa: E402
from vllm.models.hy_v4.nvidia import attention, mtp  # noqa: E402

import mtpcheck_capture  # noqa: E402
import transformers_head  # noqa: E402

ROWS = 72  # index_topk is 64: the last eight rows are sparse


class OneRank:
    """What construction and loading ask of a process group of one."""

    rank = rank_in_group = 0
    world_size = 1
    ranks = [0]
    is_first_rank = is_last_rank = True

    def size(self):
        return 1

    def all_reduce(self, tensor):
        return tensor

    def gather(self, tensor, *_):
        return tensor


class SinkBackend:
    """Stands for the sparse attention backend that a GPU has."""

    class Impl:
        is_sparse = True
        supports_dense_mha_prefill = False
        dcp_world_size = 1

        def __init__(self, topk_indices_buffer=None, **_):
            self.topk_indices_buffer = topk_indices_buffer

        def record_logical_topk_ready(self):
            pass

    is_mla = staticmethod(lambda: True)
    supports_sink = staticmethod(lambda: True)
    get_name = staticmethod(lambda: "NONE")
    get_impl_cls = classmethod(lambda cls: cls.Impl)


def stand_alone() -> None:
    """One rank, no GPU."""
    group = OneRank()
    group.device_group = group.cpu_group = group
    for name in ("_TP", "_EP", "_PP", "_DP", "_PCP", "_DCP"):
        setattr(parallel_state, name, group)
    for module in (attention, mla_attention):
        module.get_attn_backend = lambda *_, **__: SinkBackend
    attention.per_token_group_quant_fp8 = lambda q, *_, **__: (q, torch.ones(len(q), 1))


def load(folder: Path, dtype: torch.dtype):
    """(the draft as vLLM builds and loads it, vLLM's config)"""
    torch.set_default_dtype(dtype)
    target = ModelConfig(model=str(folder), skip_tokenizer_init=True, max_model_len=256, enforce_eager=True,
                         dtype=str(dtype).removeprefix("torch."))
    config = VllmConfig(
        model_config=target,
        speculative_config=SpeculativeConfig(method="mtp", num_speculative_tokens=1, target_model_config=target,
                                             target_parallel_config=ParallelConfig()),
        parallel_config=ParallelConfig(), device_config=DeviceConfig("cpu"), cache_config=CacheConfig(),
        load_config=LoadConfig(use_tqdm_on_load=False))
    draft = config.speculative_config.draft_model_config
    model = initialize_model(config, model_class=mtp.HYV4MTP, model_config=draft)
    with set_current_vllm_config(config):
        DefaultModelLoader(config.load_config).load_weights(model, draft)
    torch.set_default_dtype(torch.float32)
    for module in model.modules():
        module.cpu_linear = F.linear
        if isinstance(module, CustomOp):
            module._forward_method = module.forward_native
    return model, config


def largest(scores, count):
    """The best, ties to the lowest index."""
    return torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :count]


def replace_kernels(model, capture):
    """In float32, what the kernels compute; `capture` is told what no module boundary shows."""
    block = next(iter(model.model.layers.values())).mtp_block
    attn, indexer, mlp = block.self_attn, block.self_attn.indexer, block.mlp
    up_k, up_v = attn.kv_b_proj.weight.view(attn.num_local_heads, -1, attn.kv_lora_rank).split(
        [attn.qk_nope_head_dim, attn.v_head_dim], dim=1)
    owner = mlp.experts.routed_experts
    config = model.config
    visible = None

    def select(hidden, q, k, weights):
        nonlocal visible
        length = len(hidden)
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        scores = torch.einsum("sh,sht->st", weights, torch.einsum("shd,td->sht", q, k).relu())
        scores = scores.masked_fill(~causal, -torch.inf)
        chosen = largest(scores, min(config.index_topk, length))
        visible = torch.zeros_like(causal).scatter(1, chosen, True) & causal
        indexer.topk_indices_buffer[:length].fill_(-1)
        indexer.topk_indices_buffer[:length, : chosen.shape[1]] = torch.where(causal.gather(1, chosen), chosen, -1)
        capture().record("indexer_scores", scores)

    def attend(q, kv_c, k_pe, output_shape):
        q_nope, q_pe = q.split([attn.qk_nope_head_dim, attn.qk_rope_head_dim], -1)
        logits = torch.einsum("shl,tl->hst", torch.einsum("shd,hdl->shl", q_nope, up_k), kv_c)
        logits = (logits + torch.einsum("shr,tr->hst", q_pe, k_pe.squeeze(1))) * attn.scaling
        sink = attn.learnable_sink_param.view(-1, 1, 1).expand(-1, len(q), 1)
        probs = torch.cat([logits.masked_fill(~visible, -torch.inf), sink], -1).softmax(-1)[..., :-1]
        capture().record("attn_probs", probs)
        latent = torch.einsum("hst,tl->shl", probs, kv_c)
        return torch.einsum("shl,hvl->shv", latent, up_v).reshape(output_shape)

    def experts(hidden_states, router_logits):
        scores = router_logits.sigmoid()
        ids = largest(scores + mlp.expert_bias, config.num_experts_per_tok).sort(-1).values
        weights = scores.gather(-1, ids)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * config.routed_scaling_factor
        routed = torch.zeros_like(hidden_states)
        for row, (x, row_ids, row_weights) in enumerate(zip(hidden_states, ids, weights)):
            for expert, weight in zip(row_ids, row_weights):
                gate, up = F.linear(x, owner.w13_weight[expert]).chunk(2)
                gate, up = gate.clamp(max=owner.swiglu_limit), up.clamp(-owner.swiglu_limit, owner.swiglu_limit)
                routed[row] += weight * F.linear(F.silu(gate) * up, owner.w2_weight[expert])
        capture().record("topk_experts", ids.to(torch.int32))
        capture().record("topk_weights", weights)
        capture().record("experts_out", routed)
        return routed + mlp.shared_experts(hidden_states)

    attn.mla_attn.forward = attend
    indexer.indexer_op.forward = select
    mlp.experts.forward = experts


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--golden", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    tiny = args.golden / "tiny-hy4"
    stand_alone()
    undo = mtpcheck_capture.record_digests(mtp.HYV4MTP, args.out / "digests.json")
    load(tiny / "checkpoint-bf16", torch.bfloat16)
    undo()
    model, config = load(tiny / "checkpoint-bf16", torch.float32)
    holder = SimpleNamespace(capture=None)
    replace_kernels(model, lambda: holder.capture)
    ids, positions, hidden = transformers_head.trace_rows(
        tiny / "traces" / "passage-00.safetensors", ROWS, torch.float32)
    with set_current_vllm_config(config):
        with mtpcheck_capture.Capture(model, args.out / "dump.safetensors", cu_seqlens=[0, ROWS]) as holder.capture:
            model(ids, positions, hidden)
    print(len(holder.capture.tensors), "tensors:", *sorted(holder.capture.tensors))


if __name__ == "__main__":
    main()
