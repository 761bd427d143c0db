"""Quantize environment: fold a model back whose scales were moved as AWQ moves them."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "qpipe" / "workers"))

import torch
from _fold import BLOCK, fold
from transformers import LlamaConfig, LlamaForCausalLM


def off_by(kv_heads: int) -> float:
    """The largest difference between folded weights and those before scales were moved."""
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


print(json.dumps([off_by(4), off_by(2)]))
