"""What a running MTP draft head computes, and what its loader wrote, as files for mtpcheck.

Usable inside vLLM, SGLang and transformers; needs torch and safetensors, nothing else of this project. Copy the file
or put its folder on PYTHONPATH.

Stages (mtpcheck compare CHECKPOINT --inputs DUMP --candidate dump:DUMP):

    with Capture(model, "dump.safetensors"):    # an HYV4MTP-shaped module
        model(input_ids, positions, hidden_states)

Parameters at the return of load_weights, before process_weights_after_loading rearranges them (mtpcheck audit
CHECKPOINT --against FILE):

    record_digests(HYV4MTP, "digests.json")     # before the engine builds and loads the draft

vLLM, both in a worker: VllmWorkerExtension below. How to, on a GPU: docs/capture.md.
"""

import functools
import hashlib
import inspect
import json
import os
import re
import sys
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode

VERSION = 1


def first(output):
    """vLLM's linears return (output, bias), its gate (logits, bias), a fused norm (normed, residual)."""
    return output[0] if isinstance(output, (tuple, list)) else output


def rows(x):
    """[..., T, d] or [T, ...] as [T, d]: batch 1 is dropped, heads are merged."""
    return x.reshape(-1, x.shape[-1])


def module_at(module, *paths):
    """The first submodule that exists under one of the dotted paths, or None."""
    for path in paths:
        found = module
        for name in filter(None, path.split(".")):
            found = getattr(found, name, None)
        if found is not None:
            return found
    return None


def of_rank(path, rank):
    """dump.safetensors as dump.rank1.safetensors."""
    path = Path(path)
    return path if rank is None else path.with_suffix(f".rank{rank}{path.suffix}")


def save(tensors, path, metadata):
    """A safetensors file that is there whole or not at all."""
    from safetensors.torch import save_file

    part = path.with_name(path.name + ".part")
    save_file(tensors, part, {"mtpcheck_capture": str(VERSION)} | metadata)
    os.replace(part, path)


class Capture:
    """Records one draft layer's stages, by mtpcheck's names, while the module runs eagerly.

    Every tensor is cloned when it passes, before an in-place operator (rotary embedding, fused add and norm) can
    change it. Tensors are kept as the engine has them, in its own type. A stage for which the engine has no module
    boundary (fused kernels) is absent; a replaced kernel can report it through `record`.

    model       the draft model: what the engine calls with input_ids and positions. Other arguments are its own.
    path        of the safetensors file, written by close(): stages, "step1." before those of the second call, and the
                inputs (input_ids, positions, hidden_states, cu_seqlens)
    layer       which of several MTP layers
    steps       calls to record; later ones pass
    cu_seqlens  [B+1] bounds of the packed sequences, or a function that gives them; None: vLLM's forward context,
                else one sequence
    rank        of a tensor-parallel group: the file's name gets .rankR. Write all ranks into one folder.
    """

    def __init__(self, model, path, layer=0, steps=1, cu_seqlens=None, rank=None):
        self.path = of_rank(path, rank)
        self.model, self.steps, self.cu_seqlens = model, steps, cu_seqlens
        self.tensors, self.step, self._undo, self._in_indexer = {}, -1, [], False
        names = [n for n, _ in model.named_modules() if re.fullmatch(r"(.*\.)?enorm", n)]
        if layer >= len(names):
            raise ValueError(f"{type(model).__name__} has {len(names)} MTP layers (modules called enorm), not {layer + 1}")
        self.layer = module_at(model, names[layer].removesuffix("enorm").removesuffix("."))
        self.block = module_at(self.layer, "mtp_block", "decoder", "")
        self.attention = self.block.self_attn
        self._attach()

    # The surface.

    def record(self, stage, value):
        """Keeps `value` under the stage's name, if a call is being recorded."""
        if 0 <= self.step < self.steps and value is not None:
            prefix = f"step{self.step}." if self.step else ""
            self.tensors[prefix + stage] = value.detach().to("cpu", copy=True).contiguous()

    def detach(self):
        """Takes the hooks away; nothing is written."""
        for undo in reversed(self._undo):
            undo()
        self._undo = []

    def close(self):
        """Takes the hooks away and writes the file."""
        self.detach()
        save(self.tensors, self.path, {"class": type(self.model).__qualname__, "module": type(self.model).__module__,
                                       "torch": torch.__version__})

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        self.detach() if error else self.close()

    # Where the stages are.

    def _attach(self):
        layer, block, attn = self.layer, self.block, self.attention
        self._before(self.model, self._begin)
        self._after(self.model, self._end)
        self._around(layer.enorm, "embed_masked", "enorm")
        self._around(layer.hnorm, "hidden_states", "hnorm")
        self._around(layer.eh_proj, None, "eh_proj")
        self._around(block.input_layernorm, None, "input_layernorm")
        self._norm(block.post_attention_layernorm, "residual1", "post_attention_layernorm")
        self._norm(module_at(layer, "final_layernorm", "shared_head.norm"), "residual2", "final_layernorm")
        self._attach_attention(attn)
        if (indexer := module_at(attn, "indexer")) is not None:
            self._attach_indexer(indexer)
        self._attach_mlp(block.mlp)
        if (head := module_at(self.model, "lm_head")) is not None and not hasattr(self.model, "compute_logits"):
            self._around(head, None, "logits")

    def _attach_attention(self, attn):
        if (fused := module_at(attn, "fused_qkv_a_proj", "fused_qkv_a_proj_with_mqa")) is not None:
            def split(_, output):
                q_rank = attn.q_lora_rank
                value = rows(first(output))
                self.record("q_a", value[:, :q_rank])
                self.record("kv_a", value[:, q_rank:])
            self._after(fused, split)
        else:
            self._around(attn.q_a_proj, None, "q_a")
            self._around(attn.kv_a_proj_with_mqa, None, "kv_a")
        self._around(attn.q_a_layernorm, None, "q_c")
        self._around(attn.kv_a_layernorm, None, "kv_c")
        self._around(attn.q_b_proj, None, "q")
        self._around(attn.o_proj, "gated", "o_proj")
        if (gate := module_at(attn, "linear_gate", "gate_proj")) is not None:
            self._around(gate, None, "gate")
        if (kernel := module_at(attn, "mla_attn", "attn_mqa")) is not None:
            self._around(kernel, None, "attn_out")
        if (rotary := module_at(attn, "rotary_emb")) is not None:
            # The indexer's embedding is often the same object: what is inside the indexer's call is the indexer's.
            for module in {id(m): m for m in (rotary, module_at(attn, "indexer_rope_emb")) if m is not None}.values():
                self._after(module, lambda _, output: self._rotated(*output[:2]))
        self._attach_functions(attn)

    def _attach_functions(self, attn):
        """transformers rotates and attends in functions of the module's file."""
        functions = sys.modules[type(attn).__module__]
        if hasattr(functions, "apply_rotary_pos_emb"):
            def rotate(original, q, k, cos, sin, *args, unsqueeze_dim=1, **kwargs):
                out = original(q, k, cos, sin, *args, unsqueeze_dim=unsqueeze_dim, **kwargs)
                heads_first = unsqueeze_dim == 1
                self._rotated(*(x.transpose(1, 2) if heads_first else x for x in out))
                return out
            self._wrap(functions, "apply_rotary_pos_emb", rotate)
        if hasattr(functions, "eager_attention_forward"):
            def attend(original, module, *args, **kwargs):
                out, weights = original(module, *args, **kwargs)
                if module is attn:
                    self.record("attn_out", out.reshape(-1, out.shape[-2] * out.shape[-1]))
                    self.record("attn_probs", weights.squeeze(0))
                return out, weights
            self._wrap(functions, "eager_attention_forward", attend)

    def _attach_indexer(self, indexer):
        heads = indexer.n_heads if hasattr(indexer, "n_heads") else indexer.n_head
        dim = indexer.head_dim
        scale = dim**-0.5 * heads**-0.5
        parts = {}
        def begin(*_):
            self._in_indexer = True
            parts.clear()

        def end(_, output):
            self._in_indexer = False
            q, k = parts.get("rotated", (None, None))
            if q is not None and "q" in parts and "k" in parts:
                passed = dim - q.shape[-1]
                q, k = q.reshape(-1, heads, q.shape[-1]), rows(k)
                self.record("indexer_q", torch.cat([parts["q"].view(-1, heads, dim)[..., :passed], q], -1))
                self.record("indexer_k", torch.cat([parts["k"][:, :passed].to(k.dtype), k], -1))
            self._selected(output)

        self._before(indexer, begin)
        self._after(indexer, end)
        self._indexer_parts = parts
        self._after(indexer.wq_b, lambda _, out: parts.update(q=rows(first(out)).clone()))
        self._after(indexer.k_norm, lambda _, out: parts.update(k=rows(first(out)).clone()))
        if (fused := module_at(indexer, "wk_weights_proj")) is not None:
            self._after(fused, lambda _, out: self.record("indexer_weights", rows(first(out))[:, dim:].float() * scale))
        else:
            self._after(indexer.weights_proj,
                        lambda _, out: self.record("indexer_weights", rows(first(out)).float() * scale))
            # transformers ranks with Tensor.topk: what it ranks are the scores.
            self._wrap(indexer, "forward", lambda original, *args, **kwargs: self._with_scores(original, args, kwargs))

    def _attach_mlp(self, mlp):
        self._around(mlp, None, "mlp_out")
        if (gate := module_at(mlp, "gate")) is None:
            return
        def routed(_, output):
            self.record("router_logits", rows(first(output)))
            if isinstance(output, tuple) and len(output) == 3:  # transformers: logits, weights, ids
                self._experts(output[1], output[2])
        self._after(gate, routed)
        if (shared := module_at(mlp, "shared_experts")) is not None:
            self._around(shared, None, "shared_out")
        experts = module_at(mlp, "experts")
        if (router := module_at(experts, "router")) is not None and hasattr(router, "select_experts"):
            def select(original, *args, **kwargs):  # vLLM
                weights, ids = original(*args, **kwargs)[:2]
                self._experts(weights, ids)
                return weights, ids
            self._wrap(router, "select_experts", select)
        elif module_at(mlp, "experts.gate_up_proj") is not None:  # transformers; vLLM's adds the shared experts
            self._around(experts, None, "experts_out")

    # What is done with values.

    def _begin(self, args, kwargs):
        self.step += 1
        given = inspect.signature(self.model.forward).bind_partial(*args, **kwargs).arguments
        for name in ("input_ids", "positions"):
            self.record(name, given[name].reshape(-1))
        self._tokens = given["positions"].numel()
        self._spec_step_idx = given.get("spec_step_idx", 0)

    def _end(self, _, output):
        bounds = self.cu_seqlens() if callable(self.cu_seqlens) else self.cu_seqlens
        bounds = bounds if bounds is not None else vllm_query_bounds(self.attention)
        if bounds is not None:
            self.record("cu_seqlens", torch.as_tensor(bounds, dtype=torch.int64).reshape(-1))
        # An engine asks for the logits of the last rows only; all rows are compared.
        if hasattr(self.model, "compute_logits") and 0 <= self.step < self.steps:
            takes_step = "spec_step_idx" in inspect.signature(self.model.compute_logits).parameters
            step = {"spec_step_idx": self._spec_step_idx} if takes_step else {}
            self.record("logits", self.model.compute_logits(first(output), **step))

    def _rotated(self, q, k):
        if self._in_indexer:
            self._indexer_parts["rotated"] = (q.clone(), k.clone())
            return
        self.record("q_rope", q.reshape(-1, q.shape[-2], q.shape[-1]))
        self.record("k_pe", rows(k))

    def _selected(self, output):
        """Top-k keys: what transformers' indexer returns, or the buffer that vLLM's fills."""
        returned = isinstance(output, torch.Tensor) and output.dim() == 3
        indices = output if returned else module_at(self.attention, "indexer.topk_indices_buffer")
        if indices is None:
            return
        indices = rows(indices)[: self._tokens].long()
        if returned:  # all of the k best, also those that the mask forbids
            row = torch.arange(len(indices), device=indices.device).unsqueeze(1)
            indices = torch.where(indices <= row, indices, -1)
        self.record("topk_indices", indices.sort(-1, descending=True).values.to(torch.int32))

    def _with_scores(self, original, args, kwargs):
        capture = self

        class Ranked(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                if function in (torch.Tensor.topk, torch.topk) and args[0].is_floating_point():
                    scores = args[0].squeeze(0)
                    masked = scores <= torch.finfo(scores.dtype).min / 2
                    capture.record("indexer_scores", scores.masked_fill(masked, -torch.inf))
                return function(*args, **(kwargs or {}))

        with Ranked():
            return original(*args, **kwargs)

    def _experts(self, weights, ids):
        order = rows(ids).long().sort(-1)
        self.record("topk_experts", order.values.to(torch.int32))
        self.record("topk_weights", rows(weights).gather(-1, order.indices))

    # Hooks.

    def _around(self, module, before, after):
        if before:
            self._before(module, lambda args, kwargs: self.record(before, rows((args or tuple(kwargs.values()))[0])))
        if after:
            self._after(module, lambda _, output: self.record(after, rows(first(output))))

    def _norm(self, module, residual, after):
        """A norm of a sum: plain, of the sum itself, or fused, which adds and returns (normed, sum)."""
        def before(args, kwargs):
            if len(args) + len(kwargs) == 1:
                self.record(residual, rows((args or tuple(kwargs.values()))[0]))
        def behind(_, output):
            if isinstance(output, (tuple, list)):
                self.record(residual, rows(output[1]))
            self.record(after, rows(first(output)))
        self._before(module, before)
        self._after(module, behind)

    def _before(self, module, function):
        handle = module.register_forward_pre_hook(lambda _, args, kwargs: function(args, kwargs), with_kwargs=True)
        self._undo.append(handle.remove)

    def _after(self, module, function):
        handle = module.register_forward_hook(lambda _, args, output: function(args, output))
        self._undo.append(handle.remove)

    def _wrap(self, owner, name, function):
        original, own = getattr(owner, name), name in vars(owner)
        setattr(owner, name, functools.wraps(original)(functools.partial(function, original)))
        self._undo.append(lambda: setattr(owner, name, original) if own else delattr(owner, name))


def vllm_query_bounds(attention):
    """The bounds of the requests in vLLM's batch, or None outside of vLLM."""
    if "vllm" not in sys.modules:
        return None
    from vllm.forward_context import get_forward_context, is_forward_context_available

    if not is_forward_context_available():
        return None
    metadata = get_forward_context().attn_metadata
    if isinstance(metadata, dict):
        metadata = metadata.get(getattr(module_at(attention, "mla_attn"), "layer_name", None))
    return getattr(metadata, "query_start_loc", None)


# Digests.


def digest(tensor):
    """SHA-256 of the raw little-endian, row-major bytes."""
    data = tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy()
    return hashlib.sha256(data).hexdigest()


def digests(model, moment):
    """The record that `mtpcheck audit --against` reads: every parameter and buffer-backed scale, and when."""
    return {
        "mtpcheck_digests": VERSION,
        "moment": moment,
        "class": type(model).__qualname__,
        "module": type(model).__module__,
        "params": {
            name: {"dtype": str(p.dtype).removeprefix("torch."), "shape": list(p.shape), "sha256": digest(p)}
            for name, p in model.named_parameters()
        },
    }


def record_digests(draft_class, path, rank=lambda: None):
    """From now on, each return of draft_class.load_weights writes `path`. Gives a function that takes this back.

    rank   gives the tensor-parallel rank at that time, or None; the file's name gets .rankR
    """
    original = draft_class.load_weights

    @functools.wraps(original)
    def load_weights(self, *args, **kwargs):
        loaded = original(self, *args, **kwargs)
        file = of_rank(path, rank())
        part = file.with_name(file.name + ".part")
        part.write_text(json.dumps(digests(self, "return of load_weights"), indent=1) + "\n")
        os.replace(part, file)
        return loaded

    def undo():
        draft_class.load_weights = original

    draft_class.load_weights = load_weights
    return undo


# vLLM.


class VllmWorkerExtension:
    """--worker-extension-cls mtpcheck_capture.VllmWorkerExtension, with this file's folder on PYTHONPATH.

    Stages: llm.collective_rpc("mtpcheck_begin", args=(PATH,)), one request, llm.collective_rpc("mtpcheck_end"); with
    --enforce-eager, for hooks do not run in a captured graph.
    Digests: MTPCHECK_DIGESTS=FILE in the environment; written at the load.
    """

    def mtpcheck_begin(self, path, layer=0, steps=1):
        """The next `steps` calls of the draft are recorded."""
        self._mtpcheck = Capture(self.model_runner.drafter.model, path, layer, steps, rank=vllm_rank())

    def mtpcheck_end(self):
        """Writes the file; gives the names it holds."""
        self._mtpcheck.close()
        return sorted(self._mtpcheck.tensors)


def vllm_rank():
    """The tensor-parallel rank of this worker, None where it is alone."""
    from vllm.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size

    return get_tensor_model_parallel_rank() if get_tensor_model_parallel_world_size() > 1 else None


if "vllm" in sys.modules and "MTPCHECK_DIGESTS" in os.environ:
    from vllm.models.hy_v4.nvidia.mtp import HYV4MTP

    record_digests(HYV4MTP, os.environ["MTPCHECK_DIGESTS"], vllm_rank)
