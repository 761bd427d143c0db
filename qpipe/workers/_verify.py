"""Checks a saved checkpoint before anyone serves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from _protocol import Refusal
from safetensors import safe_open

HEAD = "lm_head.weight"
MEND = "look at the worker's log; try more calibration rows or another scheme"


def verify(
    folder: Path, model: Path, scheme: dict[str, Any], modules: list[str], expected: list[str]
) -> dict[str, Any]:
    """All tensors there and finite, and scales where the scheme promises them.

    ``modules`` are the quantized linear modules, ``expected`` the tensors of the unquantized
    ``model``.
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
    config, base = (
        json.loads((each / "config.json").read_text(encoding="utf-8")) for each in (folder, model)
    )
    for name in expected:
        packed = f"{name}_packed" in names and name.removesuffix(".weight") in modules
        tied = name == HEAD and config.get("tie_word_embeddings")
        if name not in names and not packed and not tied:
            suspects.append(f"{name} is not in it")
    suspects += _head_suspects(config, base, names, expected)
    if scheme["weights"]:
        suspects += [f"{m} has no scale" for m in modules if f"{m}.weight_scale" not in names]
        if not scheme["weights"]["symmetric"]:
            suspects += [
                f"{m} has no zero points" for m in modules if f"{m}.weight_zero_point" not in names
            ]
    if scheme["kv_cache"]:
        suspects += _kv_suspects(config["num_hidden_layers"], kv_scales)
    if suspects:
        raise Refusal(f"the checkpoint is unsound: {'; '.join(suspects[:5])}", MEND)
    return {"tensors": len(names), "kv_scales": kv_scales}


def _head_suspects(
    config: dict[str, Any], base: dict[str, Any], names: set[str], expected: list[str]
) -> list[str]:
    """A head that shares the embedding's weights must go on sharing them."""
    suspects = []
    if HEAD in names and HEAD not in expected:
        suspects.append(f"{HEAD} is in it, which the model shares with its embedding")
    flags = [each.get("tie_word_embeddings") for each in (config, base)]
    if None not in flags and flags[0] != flags[1]:
        suspects.append(f"tie_word_embeddings is {flags[0]}, {flags[1]} in the model")
    return suspects


def _kv_suspects(layers: int, scales: dict[str, float]) -> list[str]:
    """What was never calibrated has the scale 1, or none, which the engine takes for 1."""
    suspects = []
    for kind in ("k_scale", "v_scale"):
        found = {name: value for name, value in scales.items() if name.endswith(kind)}
        if len(found) != layers:
            suspects.append(f"{len(found)} of {layers} layers have a {kind}")
        suspects += [
            f"{name} is {value:g}: it was not calibrated"
            for name, value in found.items()
            if value == 1.0 or value <= 0
        ]
    return suspects
