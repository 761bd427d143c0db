"""Quantize environment: checks a checkpoint that somebody else quantized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from _protocol import progress, run, versions
from _smoke import Revived
from _verify import FOREIGN_LIMIT, check_weights, verify
from _weights import Checkpoint


def work(request: dict[str, Any]) -> dict[str, Any]:
    progress("checking the checkpoint")
    checkpoint, base = (Checkpoint(Path(request[name])) for name in ("output", "model"))
    modules = checkpoint.modules
    checked = verify(checkpoint, base, request["scheme"], modules)
    # As it is stored: speed does not matter for one short text.
    revived = Revived(checkpoint, base, torch.float32, request["trust_remote_code"])
    # Quantization-aware training moves weights; only what has nothing to do with the model is out.
    errors = check_weights(revived, base, modules, FOREIGN_LIMIT)
    return {
        **checked,
        "modules": modules,
        "weight_errors": errors,
        "smoke": revived.speak(),
        "seconds": 0.0,
        "versions": versions("torch", "compressed-tensors", "transformers"),
    }


if __name__ == "__main__":
    run(work)
