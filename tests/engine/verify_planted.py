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
from _protocol import Refusal
from _verify import verify
from safetensors.torch import save_file

LINEAR = "model.layers.0.q_proj"
EXPECTED = ["model.embed_tokens.weight", f"{LINEAR}.weight", "model.norm.weight"]
SCHEME = {"weights": {"symmetric": False}, "kv_cache": {"num_bits": 8}}
Tensors = dict[str, torch.Tensor]


def sound() -> Tensors:
    attention = "model.layers.{}.self_attn"
    return {
        "model.embed_tokens.weight": torch.ones(4, 4),
        f"{LINEAR}.weight_packed": torch.ones(4, 1, dtype=torch.int32),
        f"{LINEAR}.weight_scale": torch.full((4, 1), 0.5),
        f"{LINEAR}.weight_zero_point": torch.ones(4, 1, dtype=torch.int32),
        "model.norm.weight": torch.ones(4),
        **{
            f"{attention.format(layer)}.{kind}": torch.tensor([0.25])
            for layer in (0, 1)
            for kind in ("k_scale", "v_scale")
        },
    }


def said(change: Callable[[Tensors, dict[str, Any]], object]) -> str:
    tensors = sound()
    base = {"num_hidden_layers": 2, "tie_word_embeddings": True}
    config = dict(base)
    change(tensors, config)
    with tempfile.TemporaryDirectory() as root:
        folder, model = Path(root, "checkpoint"), Path(root, "model")
        for each, content in ((folder, config), (model, base)):
            each.mkdir()
            (each / "config.json").write_text(json.dumps(content))
        save_file(tensors, folder / "model.safetensors")
        try:
            verify(folder, model, SCHEME, [LINEAR], EXPECTED)
        except Refusal as refusal:
            return str(refusal)
    return ""


FAULTS: dict[str, Callable[[Tensors, dict[str, Any]], object]] = {
    "none": lambda tensors, config: None,
    "nan": lambda tensors, config: tensors["model.norm.weight"].fill_(torch.nan),
    "infinite scale": lambda tensors, config: tensors[f"{LINEAR}.weight_scale"].fill_(torch.inf),
    "zero scales": lambda tensors, config: tensors[f"{LINEAR}.weight_scale"].zero_(),
    "no scale": lambda tensors, config: tensors.pop(f"{LINEAR}.weight_scale"),
    "no zero points": lambda tensors, config: tensors.pop(f"{LINEAR}.weight_zero_point"),
    "no tensor": lambda tensors, config: tensors.pop("model.norm.weight"),
    "head twice": lambda tensors, config: tensors.update({"lm_head.weight": torch.ones(4, 4)}),
    "untied": lambda tensors, config: config.update(tie_word_embeddings=False),
    "a layer without": lambda tensors, config: tensors.pop("model.layers.1.self_attn.k_scale"),
    "one left at 1": lambda tensors, config: tensors["model.layers.1.self_attn.v_scale"].fill_(1.0),
    "zero kv": lambda tensors, config: tensors["model.layers.0.self_attn.k_scale"].zero_(),
}

print(json.dumps({name: said(change) for name, change in FAULTS.items()}))
