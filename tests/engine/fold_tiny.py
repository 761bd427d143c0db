"""Quantize environment: fold a model back whose scales were moved as AWQ moves them."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import ClassVar

sys.path.insert(0, str(Path(__file__).parents[2] / "qpipe" / "workers"))

import torch
from _fold import AFTER_NORM, BLOCK, fold
from _verify import check_weights
from transformers import LlamaConfig, LlamaForCausalLM


def off_by(kv_heads: int, pruned: bool = False) -> float:
    """The largest difference between folded weights and those before scales were moved.

    ``pruned`` has rows of zeros, which say nothing of the scale that was moved.
    """
    torch.manual_seed(0)
    base = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=kv_heads,
        )
    )
    if pruned:
        base.model.layers[0].mlp.up_proj.weight.data[5:7] = 0
        base.model.layers[0].mlp.down_proj.weight.data[:, 5:7] = 0
    moved = copy.deepcopy(base)
    layer = moved.model.layers[0]
    attention, mlp = layer.self_attn, layer.mlp
    for norm, modules in (
        (layer.input_layernorm, (attention.q_proj, attention.k_proj, attention.v_proj)),
        (layer.post_attention_layernorm, (mlp.gate_proj, mlp.up_proj)),
    ):
        scale = torch.rand(32) + 0.5
        norm.weight.data /= scale
        for module in modules:
            module.weight.data *= scale
    pairs = [(mlp.up_proj, mlp.down_proj)]
    if kv_heads == 4:
        pairs.append((attention.v_proj, attention.o_proj))
    for upstream, downstream in pairs:
        scale = torch.rand(upstream.weight.shape[0]) + 0.5
        upstream.weight.data /= scale[:, None]
        downstream.weight.data *= scale
    ours, theirs = (
        {name: each.state_dict()[f"model.layers.0.{name}.weight"] for name in BLOCK}
        for each in (base, moved)
    )
    return max(
        float((weight - ours[name]).abs().max()) for name, weight in fold(ours, theirs).items()
    )


class Stored(dict[str, torch.Tensor]):
    """What a checkpoint's check reads of it."""

    config: ClassVar = {"model_type": "llama"}

    @property
    def names(self) -> list[str]:
        return [f"{name}.weight" for name in self]

    def weight(self, module: str) -> torch.Tensor:
        return self[module]


def smoothed_error(share: float) -> dict[str, float]:
    """Errors found where rounding took ``share`` of the norm of each smoothed weight.

    The smoothing shrinks a column a thousandfold: folded back, it would be all of the error.
    """
    torch.manual_seed(0)
    block = "model.layers.0."
    base = Stored({block + name: torch.randn(32, 32) for name in BLOCK})
    for norm in AFTER_NORM:
        base[block + norm] = torch.ones(32)
    found = Stored(base)
    scale = torch.ones(32)
    scale[3] = 1e-3
    for norm, modules in AFTER_NORM.items():
        found[block + norm] = base[block + norm] / scale
        for name in modules:
            smooth = base[block + name] * scale
            noise = torch.randn_like(smooth)
            found[block + name] = smooth + noise * share * smooth.norm() / noise.norm()
    behind = [block + name for names in AFTER_NORM.values() for name in names]
    return check_weights(found, base, behind, limit=1.0)


print(
    json.dumps(
        {
            "folded": [off_by(4), off_by(2), off_by(2, pruned=True)],
            "smoothed": list(smoothed_error(0.01).values()),
        }
    )
)
