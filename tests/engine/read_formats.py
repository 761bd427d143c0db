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
OUT, IN, GROUP = 8, 16, 8
Tensors = dict[str, torch.Tensor]


def words(rows: list[list[int]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.uint32).view(torch.int32)


def off_by(method: dict[str, Any], parts: Tensors, weight: torch.Tensor) -> float:
    with tempfile.TemporaryDirectory() as folder:
        config = {"quantization_config": method}
        Path(folder, "config.json").write_text(json.dumps(config))
        named = {f"{MODULE}.{name}": tensor.contiguous() for name, tensor in parts.items()}
        save_file(named, Path(folder, "model.safetensors"))
        checkpoint = Checkpoint(Path(folder))
        assert checkpoint.modules == [MODULE]
        return float((checkpoint.weight(MODULE) - weight).abs().max())


def opened_once() -> bool:
    """Which tensor is in which file is known from the first reading."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text("{}")
        for name in ("a", "b"):
            save_file({f"{name}.weight": torch.ones(1)}, Path(folder, f"{name}.safetensors"))
        checkpoint = Checkpoint(Path(folder))
        checkpoint.files[0].rename(Path(folder, "moved"))
        return [checkpoint.names_in(path) for path in checkpoint.files] == [
            ["a.weight"],
            ["b.weight"],
        ]


torch.manual_seed(0)
scales = torch.rand(IN // GROUP, OUT) + 0.5
in_order = torch.arange(IN) // GROUP
shuffled = in_order[torch.randperm(IN)]

# Words as they stand in files of the tools. AutoAWQ's hold eight outputs: 0x75316420 is 0 to 7.
awq_words = words([[0x75316420], [0xFDB9ECA8]] * (IN // 2))
awq_values = torch.stack([torch.arange(8), torch.arange(8, 16)] * (IN // 2))
awq_zeros = words([[0x88888888], [0x75316420]])
awq = (awq_values - torch.stack([torch.full((8,), 8), torch.arange(8)])[in_order]) * scales[
    in_order
]

# GPTQ's hold eight inputs, the lowest first; without zero points the zero is 8, stored as 7.
gptq_words = words([[0x76543210, 0x01234567] * (OUT // 2), [0xFEDCBA98, 0x89ABCDEF] * (OUT // 2)])
upwards = torch.arange(IN)
downwards = torch.cat([torch.arange(7, -1, -1), torch.arange(15, 7, -1)])
gptq = torch.stack([upwards, downwards] * (OUT // 2), dim=1) - 8
sevens, eights = (words([[word]] * (IN // GROUP)) for word in (0x77777777, 0x88888888))

fp8 = torch.randn(OUT, IN).to(torch.float8_e4m3fn)
blocks = torch.rand(OUT // 4, IN // 8) + 0.5
channels = torch.rand(OUT, 1) + 0.5
found = {
    "awq": off_by(
        {"quant_method": "awq"},
        {"qweight": awq_words, "qzeros": awq_zeros, "scales": scales},
        awq.T,
    ),
    "gptq": off_by(
        {"quant_method": "gptq", "bits": 4},
        {"qweight": gptq_words, "qzeros": sevens, "scales": scales},
        (gptq * scales[in_order]).T,
    ),
    "gptq by activation order": off_by(
        {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"},
        {
            "qweight": gptq_words,
            "qzeros": eights,
            "scales": scales,
            "g_idx": shuffled.int(),
        },
        (gptq * scales[shuffled]).T,
    ),
    "fp8 blocks": off_by(
        {"quant_method": "fp8", "weight_block_size": [4, 8]},
        {"weight": fp8, "weight_scale_inv": blocks},
        fp8.float() * blocks.repeat_interleave(4, 0).repeat_interleave(8, 1),
    ),
    "fp8 channels": off_by(
        {"quant_method": "fp8"}, {"weight": fp8, "weight_scale": channels}, fp8.float() * channels
    ),
    "opened once": opened_once(),
}
print(json.dumps(found))
