"""Quantize environment: weights packed as AutoAWQ, GPTQ and FP8 tools store them, read back."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "qpipe" / "workers"))

import torch
from _weights import Checkpoint
from safetensors.torch import save_file

MODULE = "model.layers.0.mlp.down_proj"
OUT, IN, GROUP = 16, 32, 8
Tensors = dict[str, torch.Tensor]


def packed(values: torch.Tensor, order: list[int]) -> torch.Tensor:
    """Eight 4-bit columns an integer; nibble ``i`` holds column ``order[i]``."""
    words = values.long().unflatten(-1, (-1, 8))
    total = sum(words[..., column] << (4 * nibble) for nibble, column in enumerate(order))
    return (total - (total >= 2**31) * 2**32).int()


def off_by(method: dict[str, Any], parts: Tensors, weight: torch.Tensor) -> float:
    with tempfile.TemporaryDirectory() as folder:
        config = {"quantization_config": method}
        Path(folder, "config.json").write_text(json.dumps(config))
        named = {f"{MODULE}.{name}": tensor.contiguous() for name, tensor in parts.items()}
        save_file(named, Path(folder, "model.safetensors"))
        checkpoint = Checkpoint(Path(folder))
        assert checkpoint.modules == [MODULE]
        return float((checkpoint.weight(MODULE) - weight).abs().max())


torch.manual_seed(0)
values, zeros = torch.randint(0, 16, (IN, OUT)), torch.randint(1, 16, (IN // GROUP, OUT))
scales = torch.rand(IN // GROUP, OUT) + 0.5
straight, awq = list(range(8)), [0, 2, 4, 6, 1, 3, 5, 7]


def meant(group: torch.Tensor) -> torch.Tensor:
    return ((values - zeros[group]) * scales[group]).T


in_order = torch.arange(IN) // GROUP
shuffled = in_order[torch.randperm(IN)]
rows = packed(values.T, straight).T
fp8 = torch.randn(OUT, IN).to(torch.float8_e4m3fn)
blocks = torch.rand(2, 4) + 0.5
channels = torch.rand(OUT, 1) + 0.5
found = {
    "awq": off_by(
        {"quant_method": "awq"},
        {"qweight": packed(values, awq), "qzeros": packed(zeros, awq), "scales": scales},
        meant(in_order),
    ),
    "gptq": off_by(
        {"quant_method": "gptq", "bits": 4},
        {"qweight": rows, "qzeros": packed(zeros - 1, straight), "scales": scales},
        meant(in_order),
    ),
    "gptq by activation order": off_by(
        {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"},
        {
            "qweight": rows,
            "qzeros": packed(zeros, straight),
            "scales": scales,
            "g_idx": shuffled.int(),
        },
        meant(shuffled),
    ),
    "fp8 blocks": off_by(
        {"quant_method": "fp8", "weight_block_size": [8, 8]},
        {"weight": fp8, "weight_scale_inv": blocks},
        fp8.float() * blocks.repeat_interleave(8, 0).repeat_interleave(8, 1),
    ),
    "fp8 channels": off_by(
        {"quant_method": "fp8"}, {"weight": fp8, "weight_scale": channels}, fp8.float() * channels
    ),
}
print(json.dumps(found))
