"""Quantized weights of a block in the unquantized model's frame.

AWQ and SmoothQuant move scale between modules: a quantized weight is folded back first,
W·diag(norm_q / norm_16) after a norm, and by the least-squares row scale between up_proj and
down_proj, and between v_proj and o_proj where no heads are grouped (AWQ smooths that pair only
where their widths agree). Row scales are found in the smoothed frame, where rounding took place:
folded back, its error in a column that smoothing shrank outweighs all others.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

AFTER_NORM = {
    "input_layernorm": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "post_attention_layernorm": ("mlp.gate_proj", "mlp.up_proj"),
}
PAIRS = (("mlp.up_proj", "mlp.down_proj"), ("self_attn.v_proj", "self_attn.o_proj"))
BLOCK = (*AFTER_NORM, *(module for group in AFTER_NORM.values() for module in group),
         *(after for _, after in PAIRS))  # fmt: skip
"""The parts of Llama's block, by the names of their weights."""


def can_fold(
    names: Collection[str], config: dict[str, Any], prefix: str = "model.layers.0."
) -> bool:
    """Whether the block at ``prefix`` is Llama's, whose norms multiply by their weights.

    Gemma's have the same names, multiply by 1 + w, and stand elsewhere.
    """
    parts = {f"{prefix}{part}.weight" for part in BLOCK}
    return parts <= {*names} and not str(config.get("model_type")).startswith("gemma")


def fold(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights of a block's linear modules as quantized, in the frame of ``ours``.

    Both hold the weights of ``BLOCK``: ``ours`` unquantized, ``theirs`` dequantized; float32.
    """
    folded: dict[str, torch.Tensor] = {}
    smoothed: dict[str, torch.Tensor] = {}
    for norm, modules in AFTER_NORM.items():
        ratio = theirs[norm] / ours[norm]
        for module in modules:
            folded[module] = theirs[module] * ratio
            smoothed[module] = ours[module] / ratio
    for before, after in PAIRS:
        mine, rows = smoothed[before], folded[before]
        norm = mine.square().sum(1)
        # Rows of zeros (pruned, or padding) tell nothing of their scale.
        scale = torch.where(norm > 0, (theirs[before] * mine).sum(1) / norm, 1.0)
        columns = theirs[after]
        moved = (scale - 1).abs().median() > 0.02  # rounding alone leaves row scales near one
        if moved and columns.shape[1] == scale.numel():
            rows, columns = rows / scale[:, None], columns * scale
        folded[before], folded[after] = rows, columns
    return folded
