"""Quantize environment: a compressed checkpoint's weights dequantized once, for engines that have
no kernel for it. Weight-only arithmetic is then the scheme's own; activations are rounded by the
plugin ``simulation_activations``; the speed is neither's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from _protocol import progress, run
from safetensors import safe_open
from transformers import AutoModelForCausalLM, CompressedTensorsConfig


def work(request: dict[str, Any]) -> dict[str, Any]:
    output = Path(request["output"])
    progress("dequantizing the weights")
    model = AutoModelForCausalLM.from_pretrained(
        request["checkpoint"],
        dtype=torch.bfloat16,
        quantization_config=CompressedTensorsConfig(run_compressed=False),
        trust_remote_code=request["trust_remote_code"],
        use_safetensors=True,
    )
    base = AutoModelForCausalLM.from_pretrained(
        request["model"],
        dtype=torch.bfloat16,
        trust_remote_code=request["trust_remote_code"],
        use_safetensors=True,
    )
    # Into the unquantized architecture: what the quantizer hung onto modules stays behind.
    found = model.state_dict()
    base.load_state_dict({name: found[name] for name in base.state_dict()})
    base.save_pretrained(output)
    scales = _kv_scales(Path(request["checkpoint"]))
    (output / "kv_scales.json").write_text(json.dumps(scales), encoding="utf-8")
    if request["activations"]:
        _round_activations(output, request)
    return {"kv_scales": len(scales)}


def _round_activations(output: Path, request: dict[str, Any]) -> None:
    """Have the engine's plugin round what enters the quantized modules."""
    path = output / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    scales: dict[str, dict[str, float]] = {}
    for name, tensor in _tensors(Path(request["checkpoint"])):
        module, _, kind = name.rpartition(".")
        if kind in ("input_scale", "input_zero_point", "input_global_scale"):
            scales.setdefault(module, {})[kind] = tensor.float().item()
    config["quantization_config"] = {
        "quant_method": "qpipe-simulation",
        "activations": {
            key: value for key, value in request["activations"].items() if value is not None
        },
        "modules": request["modules"],
        "scales": scales,
    }
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")


def _kv_scales(folder: Path) -> dict[str, dict[str, float]]:
    """Layer index → {"k": scale, "v": scale}; empty when the cache is not quantized."""
    scales: dict[str, dict[str, float]] = {}
    for name, tensor in _tensors(folder):
        if name.endswith(("k_scale", "v_scale")):
            layer = name.split(".layers.")[1].split(".")[0]
            kind = name.rsplit(".", 1)[-1][0]
            scales.setdefault(layer, {})[kind] = tensor.float().item()
    return scales


def _tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - a safe_open handle is no mapping
                if "scale" in name or "zero_point" in name:
                    yield name, file.get_tensor(name)


if __name__ == "__main__":
    run(work)
