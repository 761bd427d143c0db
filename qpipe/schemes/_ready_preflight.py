"""Checks a ready-made checkpoint against the model's shapes: it is as it is, groups and all."""

from __future__ import annotations

from collections.abc import Iterable

from qpipe.config import Scheme
from qpipe.errors import ConfigError, Fault
from qpipe.model import Architecture, Linear
from qpipe.schemes._declared import QuantizationConfig, as_declared
from qpipe.schemes._preflight import preflight, quantized_modules

__all__ = ["preflight_checkpoint"]


def preflight_checkpoint(
    found: QuantizationConfig, scheme: Scheme, architecture: Architecture, devices: int
) -> list[tuple[str, str]]:
    """Why the engine would refuse such a checkpoint on ``devices``, each with its mend."""
    scheme = as_declared(found, scheme)
    left = _left(found, scheme, architecture.linears)
    scheme = scheme.model_copy(update={"ignore": left})
    faults = _faults(scheme, architecture, devices)
    fewer = [
        str(count)
        for count in range(1, devices)
        if devices % count == 0 and not _faults(scheme, architecture, count)
    ]
    mend = "take another checkpoint of this model"
    if fewer:
        mend = f"set `serve.tensor_parallel_size` to {' or '.join(fewer)}, or {mend}"
    return [(fault.message, mend) for fault in faults]


def _faults(scheme: Scheme, architecture: Architecture, devices: int) -> tuple[Fault, ...]:
    try:
        preflight({"it": scheme}, architecture.linears, {"it": devices}, architecture)
    except ConfigError as error:
        return error.faults
    return ()


def _left(found: QuantizationConfig, scheme: Scheme, modules: Iterable[Linear]) -> list[str]:
    """Modules at 16 bits by their names: its patterns may speak of what the model does not have."""

    def but(patterns: Iterable[str]) -> set[Linear]:
        return {*quantized_modules(scheme.model_copy(update={"ignore": patterns}), modules)}

    quantized = but(found.ignore)
    if "Linear" not in found.targets:
        quantized -= but(found.targets)
    return [module.name for module in modules if module not in quantized]
