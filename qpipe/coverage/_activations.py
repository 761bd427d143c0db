"""What held-out texts do inside the model that calibration rows never did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from qpipe.calibration import Tokenizer
from qpipe.config import Config
from qpipe.envs import described, run_worker
from qpipe.hardware import visible_gpus
from qpipe.model import architecture
from qpipe.room import RUNTIME, Need, memory_free
from qpipe.schemes import WIDE_BYTES, quantized_modules

__all__ = ["FACTOR", "compare_activations", "cut"]

TOKENS = 4096
"""Tokens a side: seconds for a small model on a CPU."""
ROW = 256
"""Tokens of a row at most, so that few long rows are not all there is to see."""
FACTOR = 1.5
"""A channel exceeds calibration where its maximum is more than so many times the one seen there."""
FLOAT32 = 4


def compare_activations(
    config: Config,
    tokenizer: Tokenizer,
    rows: Sequence[Sequence[int]],
    held_out: Mapping[str, list[list[int]]],
    kin: Mapping[str, str],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """The worker's ``groups`` by name, or ``left_out`` with the reason why it did not run.

    ``held_out`` has each group's texts as token ids, ``kin`` each group's category.

    Raises:
        EnvError: the worker refused. WorkerError: it died.
    """
    workspace = config.workspace
    environment = described("quantize", workspace)
    if not environment.ready:
        return {"left_out": "environment 'quantize' is not ready: run `qpipe env sync quantize`"}
    if not list(workspace.model.glob("*.safetensors")):
        return {"left_out": "there are no weights in out/model: run `qpipe model`"}
    shapes = architecture(workspace.model)
    short = [need for need in _needs(shapes.values) if not need.fits]
    if short:
        return {"left_out": f"{short[0]}; {short[0].mend}"}
    known = shapes.linears
    modules = {
        module.name
        for scheme in config.schemes.values()
        for module in quantized_modules(scheme, known)
    } or {module.name for module in known}
    a_group = TOKENS // max(1, len(held_out))
    sets = {"calibration": [list(row[:ROW]) for row in rows[: TOKENS // min(ROW, len(rows[0]))]]}
    sets |= {name: cut(texts, tokenizer, a_group) for name, texts in held_out.items()}
    request = {
        "model": str(workspace.model),
        "trust_remote_code": config.release.model.trust_remote_code,
        "modules": sorted(modules),
        "sets": {name: found for name, found in sets.items() if found},
        "kin": dict(kin),
        "factor": FACTOR,
    }
    done = run_worker("quantize", "coverage", request, workspace, "check", progress)
    return {"factor": FACTOR, **done}


def _needs(values: int) -> Iterator[Need]:
    """Room for the whole model as the worker loads it: on a GPU in 16 bits, by way of memory."""
    gpus = visible_gpus()
    size = RUNTIME + values * (WIDE_BYTES if gpus else FLOAT32)
    mend = "end other programs, or take a machine with more memory"
    yield Need("memory to compare activations", size, memory_free(), mend)
    for gpu in gpus[:1]:
        if gpu.total_mib is not None:
            there = (gpu.total_mib - (gpu.used_mib or 0)) * 2**20
            yield Need("GPU memory to compare activations", size, there, mend)


def cut(texts: list[list[int]], tokenizer: Tokenizer, tokens: int) -> list[list[int]]:
    """Rows like those of calibration: texts joined by EOS, ``tokens`` of them, BOS ahead of each.

    The last row may be short, but not so short that it is mostly beginning.
    """
    stream = tokenizer.join(texts)[0][:tokens]
    size = ROW - len(tokenizer.prefix)
    rows = [tokenizer.prefix + stream[at : at + size] for at in range(0, len(stream), size)]
    return [row for row in rows if len(row) >= ROW // 8]
