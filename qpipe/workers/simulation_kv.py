"""Serve environment: rounds keys and values to FP8 before they enter a 16-bit KV cache.

``QPIPE_KV_SCALES`` names the file with the checkpoint's scales.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl

SCALES: dict[str, dict[str, float]] = json.loads(
    Path(os.environ["QPIPE_KV_SCALES"]).read_text(encoding="utf-8")
)
calls: dict[str, int] = {}
"""By layer index: writes of rounded keys and values."""


def _fp8(values: torch.Tensor, scale: float) -> torch.Tensor:
    limit = torch.finfo(torch.float8_e4m3fn).max
    rounded = (values / scale).clamp(-limit, limit).to(torch.float8_e4m3fn)
    return rounded.to(values.dtype) * scale


def _patch() -> None:
    # The cache is written apart from the forward pass, and attention reads it from there.
    update = CPUAttentionBackendImpl.do_kv_cache_update

    def rounding_update(
        self: Any, layer: Any, key: Any, value: Any, *rest: Any, **named: Any
    ) -> None:
        index = layer.layer_name.split(".layers.")[1].split(".")[0]
        scales = SCALES[index]
        calls[index] = calls.get(index, 0) + 1
        update(self, layer, _fp8(key, scales["k"]), _fp8(value, scales["v"]), *rest, **named)

    CPUAttentionBackendImpl.do_kv_cache_update = rounding_update


_patch()
