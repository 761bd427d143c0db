"""Quantize environment: what is said of checkpoints that no longer speak."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "qpipe" / "workers"))

import torch
from _protocol import Refusal
from _smoke import Revived
from _weights import Checkpoint
from safetensors.torch import load_file, save_file
from tiny import work as make_tiny

Tensors = dict[str, torch.Tensor]
NORM = "model.layers.1.post_attention_layernorm.weight"
FAULTS: dict[str, Callable[[Tensors], object]] = {
    "none": lambda tensors: None,
    "overflow": lambda tensors: tensors[NORM].fill_(3e38),
    "lost": lambda tensors: tensors["model.embed_tokens.weight"].copy_(
        torch.randn(320, 128).mul(2)
    ),
}


def said(model: Path, change: Callable[[Tensors], object]) -> str:
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "changed")
        shutil.copytree(model, folder)
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        try:
            revived = Revived(Checkpoint(folder), Checkpoint(model), torch.float32, False)
            found = revived.speak()
        except Refusal as refusal:
            return str(refusal)
        return f"KL {found['kl']:.3f}"


with tempfile.TemporaryDirectory() as root:
    made = Path(root, "tiny")
    make_tiny({"output": str(made), "hidden": 128, "head": 32})
    print(json.dumps({name: said(made, change) for name, change in FAULTS.items()}))
