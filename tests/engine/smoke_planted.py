"""Quantize environment: what is said of checkpoints that no longer speak."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2] / "qpipe" / "workers"))

import torch
from _protocol import Refusal
from _smoke import Revived, read_back
from _verify import Unsound
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


LINEAR = "model.layers.0.self_attn.q_proj"


@contextmanager
def changed(model: Path, change: Callable[[Tensors], object]) -> Iterator[Checkpoint]:
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "changed")
        shutil.copytree(model, folder)
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        yield Checkpoint(folder)


def said(model: Path, change: Callable[[Tensors], object]) -> str:
    with changed(model, change) as checkpoint:
        try:
            found = Revived(checkpoint, Checkpoint(model), torch.float32, False).speak()
        except Unsound as unsound:
            return str(unsound)
        return f"KL {found['kl']:.3f}"


def mend(model: Path, change: Callable[[Tensors], object]) -> str:
    """Of all checks but those of tensors, which a model that is not quantized would not pass."""
    with changed(model, change) as checkpoint, patch("_smoke.verify", return_value={}):
        try:
            read_back(
                *(checkpoint, Checkpoint(model), {"weights": {"num_bits": 8}}, [LINEAR]),
                *(torch.float32, False),
                mend="fetch it again",
                far_mend="say that it was trained",
            )
        except Refusal as refusal:
            return refusal.mend
    return ""


with tempfile.TemporaryDirectory() as root:
    made = Path(root, "tiny")
    make_tiny({"output": str(made), "hidden": 128, "head": 32})
    mends = {
        "lost": mend(made, FAULTS["lost"]),
        "far": mend(made, lambda tensors: tensors[f"{LINEAR}.weight"].mul_(3)),
    }
    print(
        json.dumps({name: said(made, change) for name, change in FAULTS.items()} | {"mends": mends})
    )
