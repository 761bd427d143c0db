"""Quantize environment: a compressed checkpoint's weights dequantized once, for engines that have
no kernel for it. Weight-only arithmetic is then the scheme's own; activations are rounded by the
plugin ``simulation_activations``; the speed is neither's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from _protocol import progress, run
from _weights import HEAD, INDEX, Checkpoint
from safetensors.torch import save_file


def work(request: dict[str, Any]) -> dict[str, Any]:
    output = Path(request["output"])
    checkpoint, base = (Checkpoint(Path(request[name])) for name in ("checkpoint", "model"))
    progress("dequantizing the weights")
    there = {*checkpoint.names, *(f"{module}.weight" for module in checkpoint.modules)}
    quantized = {f"{module}.weight": module for module in checkpoint.modules}
    largest = _largest_scales(checkpoint, request["fused"])
    # By the model's files and names: what the quantizer hung onto modules stays behind.
    for path in base.files:
        tensors = {}
        for name in base.names_in(path):
            module = quantized.get(name)
            if name not in there and checkpoint.tied and name == HEAD:
                continue  # the embedding's, which the engine takes
            found = checkpoint.weight(module) if module else checkpoint.tensor(name)
            if module in largest:
                found = _fp8(found, largest[module])
            tensors[name] = found.to(base.tensor(name).dtype).contiguous()
        save_file(tensors, output / path.name, metadata={"format": "pt"})
    for name in ("config.json", INDEX):
        if (base.folder / name).exists():
            shutil.copy2(base.folder / name, output / name)
    scales = _kv_scales(checkpoint)
    (output / "kv_scales.json").write_text(json.dumps(scales), encoding="utf-8")
    if request["activations"]:
        _round_activations(output, checkpoint, request)
    return {"kv_scales": len(scales)}


def _largest_scales(checkpoint: Checkpoint, fused: list[list[str]]) -> dict[str, torch.Tensor]:
    """Module → the largest scale of the matrix that the engine fuses it into.

    vLLM gives a fused matrix of FP8 with a scale a tensor one scale, and rounds its parts to that a
    second time (``requantize_with_max_scale``).
    """
    largest = {}
    for modules in fused:
        scales = [checkpoint.tensor(f"{module}.weight_scale").float().max() for module in modules]
        largest |= {module: torch.stack(scales).max() for module in modules}
    return largest


def _fp8(weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    limit = torch.finfo(torch.float8_e4m3fn).max
    return (weight / scale).clamp(-limit, limit).to(torch.float8_e4m3fn).float() * scale


def _round_activations(output: Path, checkpoint: Checkpoint, request: dict[str, Any]) -> None:
    """Have the engine's plugin round what enters the quantized modules."""
    path = output / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    scales: dict[str, dict[str, float]] = {}
    for name in checkpoint.names:
        module, _, kind = name.rpartition(".")
        if kind in ("input_scale", "input_zero_point", "input_global_scale"):
            scales.setdefault(module, {})[kind] = checkpoint.tensor(name).float().item()
    config["quantization_config"] = {
        "quant_method": "qpipe-simulation",
        "activations": {
            key: value for key, value in request["activations"].items() if value is not None
        },
        "modules": request["modules"],
        "scales": scales,
    }
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")


def _kv_scales(checkpoint: Checkpoint) -> dict[str, dict[str, float]]:
    """Layer index → {"k": scale, "v": scale}; empty when the cache is not quantized."""
    scales: dict[str, dict[str, float]] = {}
    for name in checkpoint.names:
        if name.endswith(("k_scale", "v_scale")):
            layer = name.split(".layers.")[1].split(".")[0]
            kind = name.rsplit(".", 1)[-1][0]
            scales.setdefault(layer, {})[kind] = checkpoint.tensor(name).float().item()
    return scales


if __name__ == "__main__":
    run(work)
