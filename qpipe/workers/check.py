"""Quantize environment: checks a checkpoint that another tool made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from _protocol import progress, run, versions
from _smoke import Revived
from _verify import ERROR_LIMITS, TRAINED_LIMIT, check_weights, verify
from _weights import Checkpoint


def work(request: dict[str, Any]) -> dict[str, Any]:
    progress("checking the checkpoint")
    checkpoint, base = (Checkpoint(Path(request[name])) for name in ("output", "model"))
    scheme, modules = request["scheme"], checkpoint.modules
    checked = verify(checkpoint, base, scheme, modules, request.get("expected_bytes"))
    # In float32 on any machine: speed does not matter for one short text.
    revived = Revived(checkpoint, base, torch.float32, request["trust_remote_code"])
    if scheme["weights"]:
        limit = ERROR_LIMITS[scheme["weights"]["num_bits"]]
        # Quantization-aware training moves weights; what has nothing to do with the model is out.
        limit = TRAINED_LIMIT if request["may_be_trained"] else limit
        checked["weight_errors"] = check_weights(revived, base, modules, limit)
    return {
        **checked,
        "modules": modules,
        "smoke": revived.speak(),
        "versions": versions("torch", "compressed-tensors", "transformers"),
    }


if __name__ == "__main__":
    run(work)
