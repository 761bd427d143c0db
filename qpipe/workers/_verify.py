"""Checks a saved checkpoint before anyone serves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from _protocol import Refusal
from safetensors import safe_open

MEND = "look at the worker's log; try more calibration rows or another scheme"


def verify(
    folder: Path, scheme: dict[str, Any], modules: list[str], expected: list[str]
) -> dict[str, Any]:
    """All tensors there and finite, and scales where the scheme promises them.

    ``modules`` are the quantized linear modules, ``expected`` the unquantized model's tensors.
    """
    names: set[str] = set()
    suspects: list[str] = []
    kv_scales: dict[str, float] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - a safe_open handle is no mapping
                names.add(name)
                tensor = file.get_tensor(name)
                if tensor.is_floating_point():
                    wide = tensor.float()
                    if not torch.isfinite(wide).all():
                        suspects.append(f"{name} holds NaN or infinity")
                    if name.endswith("weight_scale") and not (wide > 0).any():
                        suspects.append(f"{name} is all zero")
                if name.endswith(("k_scale", "v_scale")):
                    kv_scales[name] = tensor.float().item()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for name in expected:
        packed = f"{name}_packed" in names and name.removesuffix(".weight") in modules
        tied = name == "lm_head.weight" and config.get("tie_word_embeddings")
        if name not in names and not packed and not tied:
            suspects.append(f"{name} is not in it")
    if scheme["weights"]:
        suspects += [f"{m} has no scale" for m in modules if f"{m}.weight_scale" not in names]
        if not scheme["weights"]["symmetric"]:
            suspects += [
                f"{m} has no zero points" for m in modules if f"{m}.weight_zero_point" not in names
            ]
    if scheme["kv_cache"]:
        suspects += _kv_suspects(folder, kv_scales)
    if suspects:
        raise Refusal(f"the checkpoint is unsound: {'; '.join(suspects[:5])}", MEND)
    return {"tensors": len(names), "kv_scales": kv_scales}


def _kv_suspects(folder: Path, scales: dict[str, float]) -> list[str]:
    layers = json.loads((folder / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"]
    suspects = []
    for kind in ("k_scale", "v_scale"):
        found = [value for name, value in scales.items() if name.endswith(kind)]
        if len(found) != layers:
            suspects.append(f"{len(found)} of {layers} layers have a {kind}")
        elif all(value == 1.0 for value in found):
            suspects.append(f"every {kind} is 1.0: the cache was never calibrated")
    return suspects
