"""Quantize environment: checks a checkpoint that another tool made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from _protocol import progress, run, versions
from _smoke import compute_dtype, read_back
from _verify import TRAINED_LIMIT
from _weights import Checkpoint


def work(request: dict[str, Any]) -> dict[str, Any]:
    progress("checking the checkpoint")
    checkpoint, base = (Checkpoint(Path(request[name])) for name in ("output", "model"))
    checked = read_back(
        checkpoint,
        base,
        request["scheme"],
        checkpoint.modules,
        compute_dtype(),
        request["trust_remote_code"],
        # Quantization-aware training moves weights; what has nothing to do with the model is out.
        limit=TRAINED_LIMIT if request["trained"] else None,
        mend=request["mend"],
        far_mend=request["far_mend"],
        expected_bytes=request["expected_bytes"],
    )
    return {
        **checked,
        "modules": checkpoint.modules,
        "versions": versions("torch", "compressed-tensors", "transformers"),
    }


if __name__ == "__main__":
    run(work)
