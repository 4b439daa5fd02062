"""An MTP draft head made of transformers' own HY V4 modules, as a subject for mtpcheck_capture.

transformers has the modules and no MTP layer: this composes one, reading a checkpoint in the published names. What the
modules compute is theirs: half-split RoPE, 1e-6 in the latent norms, rms_norm_eps in the indexer's k_norm.
"""

import json
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn
from transformers.models.hy_v4 import modeling_hy_v4 as hy_v4
from transformers.models.hy_v4.configuration_hy_v4 import HYV4Config

LAYER = "model.mtp_layers.0."
RENAMED = {"linear_gate": "gate_proj", "learnable_sink_param": "sinks"}


def config_of(folder: Path) -> HYV4Config:
    """The checkpoint's config for the one layer that is built: the MTP layer's kinds are the last of the lists."""
    written = json.loads((folder / "config.json").read_text())
    known = HYV4Config().to_dict().keys() - {"dtype", "layer_types"}
    config = HYV4Config(**{k: v for k, v in written.items() if k in known} | {
        "num_hidden_layers": 1, "mlp_layer_types": ["sparse"], "indexer_types": ["full"]})
    config._attn_implementation = config._experts_implementation = "eager"
    return config


def tensors_of(folder: Path) -> dict:
    """The tensors of the MTP layer, the embedding and the head, by the names of MtpHead's parameters."""
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as shard:
            for name in shard.keys():
                if name.startswith(LAYER) or name in ("model.embed_tokens.weight", "lm_head.weight"):
                    own = name.removeprefix(LAYER).removeprefix("model.")
                    for old, new in RENAMED.items():
                        own = own.replace(old, new)
                    found[own] = shard.get_tensor(name)
    return found


class MtpHead(nn.Module):
    """Called as an engine calls its draft: input_ids [T] shifted by one, positions [T], hidden_states [T, H]."""

    def __init__(self, config: HYV4Config):
        super().__init__()
        width, eps = config.hidden_size, config.rms_norm_eps
        self.embed_tokens = nn.Embedding(config.vocab_size, width)
        for name in ("enorm", "hnorm", "input_layernorm", "post_attention_layernorm", "final_layernorm"):
            setattr(self, name, hy_v4.HYV4RMSNorm(width, eps))
        self.eh_proj = nn.Linear(2 * width, width, bias=False)
        self.self_attn = hy_v4.HYV4Attention(config, 0)
        self.mlp = hy_v4.HYV4MoE(config)
        self.lm_head = nn.Linear(width, config.vocab_size, bias=False)
        self.rotary = hy_v4.HYV4RotaryEmbedding(config)

    def load_weights(self, weights) -> set[str]:
        """As engines have it: (name, tensor) pairs; gives the names that were loaded."""
        own = dict(self.named_parameters()) | {n: b for n, b in self.named_buffers() if "inv_freq" not in n}
        loaded = set()
        for name, tensor in weights:
            own[name].data.copy_(tensor)
            loaded.add(name)
        missing = own.keys() - loaded
        if missing:
            raise ValueError(f"not in the checkpoint: {sorted(missing)}")
        return loaded

    @torch.no_grad()
    def forward(self, input_ids, positions, hidden_states):
        tokens, dtype = len(input_ids), hidden_states.dtype
        embed = torch.where((positions == 0)[:, None], 0, self.embed_tokens(input_ids))
        x = self.eh_proj(torch.cat([self.enorm(embed), self.hnorm(hidden_states)], -1))[None]
        later = torch.full((tokens, tokens), torch.finfo(dtype).min, dtype=dtype).triu(1)[None, None]
        attended, _, _ = self.self_attn(self.input_layernorm(x), self.rotary(x, positions[None]), later,
                                        position_ids=positions[None])
        x = attended + x
        x = self.mlp(self.post_attention_layernorm(x)) + x
        out = self.final_layernorm(x)[0]
        self.lm_head(out)
        return out


def load(folder: Path, dtype: torch.dtype) -> MtpHead:
    """The checkpoint's head in `dtype`; what transformers keeps in float32 stays there."""
    head = MtpHead(config_of(folder)).eval()
    frequencies = head.rotary.inv_freq
    head.to(dtype)
    head.rotary.inv_freq = frequencies
    for module in (head.self_attn.indexer.k_norm, head.self_attn.indexer.weights_proj):
        module.float()
    head.mlp.gate.e_score_correction_bias = head.mlp.gate.e_score_correction_bias.float()
    head.load_weights(tensors_of(folder).items())
    return head


def trace_rows(file: Path, count: int, dtype: torch.dtype) -> tuple:
    """The draft's inputs of a trace's first rows: token i+1 at position i, with the target's hidden state i."""
    with safe_open(file, "pt") as trace:
        ids, positions = trace.get_tensor("input_ids"), trace.get_tensor("positions")
        hidden = trace.get_tensor("target_hidden")
    return ids[1 : count + 1], positions[:count], hidden[:count].to(dtype)
