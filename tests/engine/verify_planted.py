"""Quantize environment: what the check of a saved checkpoint says of planted faults."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "qpipe" / "workers"))

import torch
from _verify import Unsound, check_weights, verify
from _weights import Checkpoint
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.compressors.format import infer_module_format
from compressed_tensors.quantization import QuantizationScheme
from safetensors.torch import save_file

LINEAR = "model.layers.0.self_attn.q_proj"
WEIGHTS = {
    "num_bits": 4,
    "type": "int",
    "strategy": "group",
    "group_size": 16,
    "symmetric": False,
}
GROUP = {"targets": ["Linear"], "weights": WEIGHTS}
SCHEME = {
    "weights": WEIGHTS,
    "activations": {"num_bits": 8, "dynamic": False},
    "kv_cache": {"num_bits": 8},
}
Tensors = dict[str, torch.Tensor]


def model() -> Tensors:
    torch.manual_seed(0)
    return {
        "model.embed_tokens.weight": torch.ones(4, 4),
        f"{LINEAR}.weight": torch.randn(16, 32),
        "model.norm.weight": torch.ones(4),
    }


def quantized(weight: torch.Tensor) -> Tensors:
    groups = weight.unflatten(1, (-1, 16))
    low, high = groups.amin(-1), groups.amax(-1)
    scale = (high - low) / 15
    zero = (-8 - low / scale).round().clamp(-8, 7).to(torch.int8)
    scheme = QuantizationScheme.model_validate(GROUP)
    scheme.format = infer_module_format(torch.nn.Linear, scheme)
    compressor = BaseCompressor.get_value_from_registry(scheme.format)
    parts = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero}
    return {f"{LINEAR}.{name}": each for name, each in compressor.compress(parts, scheme).items()}


def sound() -> Tensors:
    tensors = model()
    packed = quantized(tensors.pop(f"{LINEAR}.weight"))
    attention = "model.layers.{}.self_attn"
    scales = {
        f"{attention.format(layer)}.{kind}": torch.tensor([0.25])
        for layer in (0, 1)
        for kind in ("k_scale", "v_scale")
    }
    return {**tensors, **packed, **scales, f"{LINEAR}.input_scale": torch.tensor([0.1])}


def said(change: Callable[[Tensors, dict[str, Any]], object]) -> str:
    tensors = sound()
    base = {"num_hidden_layers": 2, "tie_word_embeddings": True}
    method = {"quant_method": "compressed-tensors", "config_groups": {"group_0": GROUP}}
    config = {**base, "quantization_config": method}
    change(tensors, config)
    size = config.pop("size", None)
    with tempfile.TemporaryDirectory() as root:
        found = []
        for name, content, stored in (("q", config, tensors), ("model", base, model())):
            folder = Path(root, name)
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps(content))
            save_file({key: each.contiguous() for key, each in stored.items()},
                      folder / "model.safetensors")  # fmt: skip
            found.append(Checkpoint(folder))
        try:
            verify(*found, SCHEME, [LINEAR], size)
            check_weights(*found, [LINEAR], 0.5)
        except Unsound as unsound:
            return str(unsound)
    return ""


FAULTS: dict[str, Callable[[Tensors, dict[str, Any]], object]] = {
    "none": lambda tensors, config: None,
    "nan": lambda tensors, config: tensors["model.norm.weight"].fill_(torch.nan),
    "infinite scale": lambda tensors, config: tensors[f"{LINEAR}.weight_scale"].fill_(torch.inf),
    "zero scales": lambda tensors, config: tensors[f"{LINEAR}.weight_scale"].zero_(),
    "one zero scale": lambda tensors, config: tensors[f"{LINEAR}.weight_scale"][3].zero_(),
    "zero input scale": lambda tensors, config: tensors[f"{LINEAR}.input_scale"].zero_(),
    "no input scale": lambda tensors, config: tensors.pop(f"{LINEAR}.input_scale"),
    "no scale": lambda tensors, config: tensors.pop(f"{LINEAR}.weight_scale"),
    "no zero points": lambda tensors, config: tensors.pop(f"{LINEAR}.weight_zero_point"),
    "no tensor": lambda tensors, config: tensors.pop("model.norm.weight"),
    "head twice": lambda tensors, config: tensors.update({"lm_head.weight": torch.ones(4, 4)}),
    "untied": lambda tensors, config: config.update(tie_word_embeddings=False),
    "a layer without": lambda tensors, config: tensors.pop("model.layers.1.self_attn.k_scale"),
    "one left at 1": lambda tensors, config: tensors["model.layers.1.self_attn.v_scale"].fill_(1.0),
    "zero kv": lambda tensors, config: tensors["model.layers.0.self_attn.k_scale"].zero_(),
    "a corrupted weight": lambda tensors, config: tensors[f"{LINEAR}.weight_packed"].random_(),
    "scales of another": lambda tensors, config: tensors[f"{LINEAR}.weight_scale"].mul_(2),
    "half its size": lambda tensors, config: config.update(size=1000),
}

print(json.dumps({name: said(change) for name, change in FAULTS.items()}))
