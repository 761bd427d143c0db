"""Serve environment: rounds keys and values before they enter a 16-bit KV cache.

``QPIPE_KV_DTYPE`` is the kind as the engine names it, ``QPIPE_KV_SCALES`` the file with the
checkpoint's scales where it has any.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl
from vllm.v1.attention.ops.int4_per_token_head import single_rht

SCALES: dict[str, dict[str, float]] = {}
if "QPIPE_KV_SCALES" in os.environ:
    SCALES = json.loads(Path(os.environ["QPIPE_KV_SCALES"]).read_text(encoding="utf-8"))
FP8_MAX = torch.finfo(torch.float8_e4m3fn).max
TINY = 1e-6  # the engine's kernels know no smaller scale
calls: dict[str, int] = {}
"""By layer index: writes of rounded keys and values."""


def _fp8(values: torch.Tensor, scale: torch.Tensor | float) -> torch.Tensor:
    return (values / scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn).float() * scale


def _tensor_fp8(values: torch.Tensor, scale: float) -> torch.Tensor:
    return _fp8(values, scale)


def _head_fp8(values: torch.Tensor, _: float) -> torch.Tensor:
    return _fp8(values, (values.abs().amax(-1, keepdim=True) / FP8_MAX).clamp(min=TINY))


def _head_int8(values: torch.Tensor, _: float) -> torch.Tensor:
    scale = (values.abs().amax(-1, keepdim=True) / 127).clamp(min=TINY)
    return _half_away(values / scale).clamp(-128, 127) * scale


def _head_int4(values: torch.Tensor, _: float) -> torch.Tensor:
    """With zero points, in the engine's rotated frame, and turned back."""
    size = values.shape[-1]
    norm = size & -size  # the rotation is of blocks of the largest power of two in the size
    rotated = single_rht(values)
    low, high = rotated.aminmax(dim=-1, keepdim=True)
    scale = ((high - low) / 15).clamp(min=TINY)
    zero = _half_away(-low / scale).clamp(0, 15)
    rounded = (_half_away(rotated / scale + zero).clamp(0, 15) - zero) * scale
    return single_rht(rounded, inverse=True) / norm


def _half_away(values: torch.Tensor) -> torch.Tensor:
    return torch.trunc(values + torch.where(values >= 0, 0.5, -0.5))


KINDS: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "fp8": _tensor_fp8,
    "fp8_e4m3": _tensor_fp8,
    "fp8_per_token_head": _head_fp8,
    "int8_per_token_head": _head_int8,
    "int4_per_token_head": _head_int4,
}


def _patch() -> None:
    # The cache is written apart from the forward pass, and attention reads it from there.
    update = CPUAttentionBackendImpl.do_kv_cache_update
    rounded = KINDS[os.environ["QPIPE_KV_DTYPE"]]

    def rounding_update(
        self: Any, layer: Any, key: Any, value: Any, *rest: Any, **named: Any
    ) -> None:
        index = layer.layer_name.split(".layers.")[1].split(".")[0]
        # The engine, too, takes scales that a checkpoint lacks for 1.
        scales = SCALES.get(index, {"k": 1.0, "v": 1.0})
        calls[index] = calls.get(index, 0) + 1
        key, value = (
            rounded(each.float(), scales[kind]).to(each.dtype)
            for each, kind in ((key, "k"), (value, "v"))
        )
        update(self, layer, key, value, *rest, **named)

    CPUAttentionBackendImpl.do_kv_cache_update = rounding_update


_patch()
