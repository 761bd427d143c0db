"""Quantize environment: a dequantized twin of FP8 weights with a scale a tensor."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "qpipe" / "workers"))

import torch
from safetensors.torch import load_file, save_file
from simulate import work

Q, K = (f"model.layers.0.self_attn.{name}" for name in ("q_proj", "k_proj"))
ARGS = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}
METHOD = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": ARGS}},
}


def fp8(weight: torch.Tensor, scale: float) -> torch.Tensor:
    return (weight / scale).clamp(-448, 448).to(torch.float8_e4m3fn)


torch.manual_seed(0)
with tempfile.TemporaryDirectory() as root:
    folders = {name: Path(root, name) for name in ("model", "checkpoint", "apart", "fused")}
    for path in folders.values():
        path.mkdir()
    scales = {Q: 0.01, K: 0.0137}
    weights = {name: torch.randn(16, 32) for name in scales}
    saved = {
        "model": ({}, {f"{name}.weight": each for name, each in weights.items()}),
        "checkpoint": (
            {"quantization_config": METHOD},
            {f"{name}.weight": fp8(weights[name], scale) for name, scale in scales.items()}
            | {f"{name}.weight_scale": torch.tensor([scale]) for name, scale in scales.items()},
        ),
    }
    for folder, (config, tensors) in saved.items():
        body = json.dumps({"num_hidden_layers": 1, **config})
        (folders[folder] / "config.json").write_text(body)
        save_file(tensors, folders[folder] / "model.safetensors")
    found = {}
    for name, fused in (("apart", []), ("fused", [[Q, K]])):
        request = {
            **{each: str(folders[each]) for each in ("model", "checkpoint")},
            "output": str(folders[name]),
            "activations": None,
            "modules": [Q, K],
            "fused": fused,
        }
        work(request)
        found[name] = load_file(folders[name] / "model.safetensors")


def away(twin: dict[str, torch.Tensor], name: str, wanted: torch.Tensor) -> float:
    return float((twin[f"{name}.weight"] - wanted).abs().max())


once = {name: fp8(weights[name], scale).float() * scale for name, scale in scales.items()}
# The engine rounds a part anew where its scale is not the largest.
twice = {Q: fp8(once[Q], scales[K]).float() * scales[K], K: once[K]}
print(
    json.dumps(
        {
            "apart": max(away(found["apart"], name, once[name]) for name in scales),
            "fused": max(away(found["fused"], name, twice[name]) for name in scales),
            "moved": away(found["fused"], Q, once[Q]),
        }
    )
)
