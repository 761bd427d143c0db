"""Checks a saved checkpoint before anyone serves it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from _fold import AFTER_NORM, BLOCK, can_fold, fold
from _weights import HEAD, SCALES, Checkpoint

SIZE_TOLERANCE = 0.03
# Of rounding alone: 0.01 to 0.03 at 8 bits, 0.1 at 4; GPTQ strays further, where it costs little.
ERROR_LIMITS = {8: 0.15, 4: 0.5}
"""Largest relative Frobenius error of a weight, by bits: beyond it something broke."""
TRAINED_LIMIT = 1.0
"""The same where the model was trained on: a matrix of zeros is no further away."""
STORED = ("weight_packed", "qweight", "weight")
INPUT_SCALES = ("input_scale", "input_global_scale")
ALL_SCALES = (*SCALES, *INPUT_SCALES, "weight_global_scale")
NORM = "norm.weight"
ZERO_POINTS = ("weight_zero_point", "qzeros")


class Unsound(Exception):
    """A checkpoint that must not be served; what mends it depends on who made it."""


class TooFar(Unsound):
    """Its weights have little to do with the model's."""


def verify(
    checkpoint: Checkpoint,
    base: Checkpoint,
    scheme: dict[str, Any],
    modules: list[str],
    expected_bytes: int | None = None,
) -> dict[str, Any]:
    """All tensors there and finite, and scales where the scheme promises them.

    ``modules`` are the quantized linear modules; ``expected_bytes`` the size that the scheme's
    arithmetic gives, of which the file may be off by ``SIZE_TOLERANCE``.

    Raises:
        Unsound: with the first suspects, each with its tensor or module.
    """
    suspects, kv_scales = _tensor_suspects(checkpoint)
    suspects += _missing(checkpoint, base, scheme, modules)
    suspects += _head_suspects(checkpoint, base)
    if scheme["kv_cache"]:
        suspects += _kv_suspects(base.layers, kv_scales)
    if not suspects:
        suspects += _size_suspects(checkpoint, expected_bytes)
    if suspects:
        raise Unsound(_listed(suspects))
    return {"tensors": len(checkpoint.names), "kv_scales": kv_scales}


class Weights(Protocol):
    """What has the [output, input] weights of modules, unquantized or dequantized."""

    def weight(self, module: str) -> torch.Tensor: ...


def check_weights(
    found: Weights, base: Checkpoint, modules: list[str], limit: float
) -> dict[str, float]:
    """Relative Frobenius error of each module's weight.

    Modules are left out whose scale was moved where it cannot be folded back.

    Raises:
        TooFar: weights that are further than ``limit`` from the model's.
    """
    errors = dict(_weight_errors(found, base, modules))
    suspects = [
        f"{module} is {error:.2f} of its norm away from the model's weight"
        for module, error in errors.items()
        if not error <= limit
    ]
    if suspects:
        raise TooFar(_listed(suspects))
    return errors


def _listed(suspects: list[str]) -> str:
    return f"the checkpoint is unsound: {'; '.join(suspects[:5])}"


def _weight_errors(
    found: Weights, base: Checkpoint, modules: list[str]
) -> Iterator[tuple[str, float]]:
    """Module → ‖Ŵ − W‖ / ‖W‖, with scale that was moved between modules folded back.

    Columns behind a smoothed norm count as they were quantized: smoothed ones, W·diag(s).
    """
    blocks: dict[str, list[str]] = {}
    for module in modules:
        block = re.match(r"(.*\.layers\.\d+\.)", module)
        blocks.setdefault(block.group(1) if block else "", []).append(module)
    for prefix, names in blocks.items():
        ours = {name: base.weight(name) for name in names}
        theirs = {name: found.weight(name) for name in names}
        smoothing: dict[str, torch.Tensor] = {}
        if _scale_moved(found, base, prefix):
            if not can_fold(base.names, base.config, prefix):
                continue  # in another frame, where their distance says nothing
            mine, moved = (
                {part: each.weight(f"{prefix}{part}") for part in BLOCK} for each in (base, found)
            )
            theirs |= {f"{prefix}{part}": weight for part, weight in fold(mine, moved).items()}
            for norm, parts in AFTER_NORM.items():
                smoothing |= {f"{prefix}{part}": mine[norm] / moved[norm] for part in parts}
        for name in names:
            scale = smoothing.get(name, torch.ones(()))
            away = (theirs[name] - ours[name]) * scale
            yield name, float(away.norm() / (ours[name] * scale).norm())


def _scale_moved(found: Weights, base: Checkpoint, prefix: str) -> bool:
    """Whether a smoothing step changed the block's norms."""
    names = [name for name in base.names if name.startswith(prefix) and name.endswith(NORM)]
    norms = [name.removesuffix(".weight") for name in names]
    return not all(torch.equal(found.weight(norm), base.weight(norm)) for norm in norms)


def _tensor_suspects(checkpoint: Checkpoint) -> tuple[list[str], dict[str, float]]:
    suspects, kv_scales = [], {}
    for name in checkpoint.names:
        tensor = checkpoint.tensor(name)
        if tensor.is_floating_point():
            wide = tensor.float()
            if not torch.isfinite(wide).all():
                suspects.append(f"{name} holds NaN or infinity")
            if name.endswith(ALL_SCALES) and not (wide > 0).all():
                suspects.append(f"{name} holds a scale that is not above zero")
        if name.endswith(("k_scale", "v_scale")):
            kv_scales[name] = tensor.float().item()
    return suspects, kv_scales


def _missing(
    checkpoint: Checkpoint, base: Checkpoint, scheme: dict[str, Any], modules: list[str]
) -> list[str]:
    names, quantized = set(checkpoint.names), set(modules)
    suspects = []
    for name in base.names:
        module = name.removesuffix(".weight")
        stored = STORED if module in quantized else ("weight",)
        there = name in names or any(f"{module}.{part}" in names for part in stored)
        if not there and not (name == HEAD and checkpoint.tied):
            suspects.append(f"{name} is not in it")
    if scheme["weights"]:
        wanted = [("scale", SCALES)]
        if scheme["activations"] and scheme["activations"]["dynamic"] is not True:
            wanted.append(("scale of its inputs", INPUT_SCALES))
        if scheme["weights"]["strategy"] == "tensor_group":
            wanted.append(("global scale", ("weight_global_scale",)))
        if not scheme["weights"]["symmetric"]:
            wanted.append(("zero points", ZERO_POINTS))
        suspects += [
            f"{module} has no {what}"
            for what, parts in wanted
            for module in modules
            if not any(f"{module}.{part}" in names for part in parts)
        ]
    return suspects


def _head_suspects(checkpoint: Checkpoint, base: Checkpoint) -> list[str]:
    """A head that shares the embedding's weights must go on sharing them."""
    suspects = []
    if HEAD in checkpoint.names and HEAD not in base.names:
        suspects.append(f"{HEAD} is in it, which the model shares with its embedding")
    flags = [each.config.get("tie_word_embeddings") for each in (checkpoint, base)]
    if None not in flags and flags[0] != flags[1]:
        suspects.append(f"tie_word_embeddings is {flags[0]}, {flags[1]} in the model")
    return suspects


def _kv_suspects(layers: int, scales: dict[str, float]) -> list[str]:
    """What was never calibrated has the scale 1, or none, which the engine takes for 1."""
    suspects = []
    for kind in ("k_scale", "v_scale"):
        found = {name: value for name, value in scales.items() if name.endswith(kind)}
        if len(found) != layers:
            suspects.append(f"{len(found)} of {layers} layers have a {kind}")
        suspects += [
            f"{name} is {value:g}: it was not calibrated"
            for name, value in found.items()
            if value == 1.0 or value <= 0
        ]
    return suspects


def _size_suspects(checkpoint: Checkpoint, expected: int | None) -> list[str]:
    if expected is None:
        return []
    stored = sum(checkpoint.tensor(name).nbytes for name in checkpoint.names)
    if abs(stored - expected) <= SIZE_TOLERANCE * expected:
        return []
    held, due = stored / 2**20, expected / 2**20
    return [f"it holds {held:.3f} MiB, and should {due:.3f} MiB by the scheme's arithmetic"]
