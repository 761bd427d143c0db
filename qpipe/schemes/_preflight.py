"""Checks a scheme against the model's shapes before any work starts."""

from __future__ import annotations

import re
from collections.abc import Iterable

from qpipe.config import QuantArgs, Scheme
from qpipe.errors import ConfigError, Fault
from qpipe.model import Linear

__all__ = ["preflight", "quantized_modules"]


def quantized_modules(scheme: Scheme, modules: Iterable[Linear]) -> list[Linear]:
    """The linear modules whose weights the scheme quantizes."""
    if scheme.weights is None:
        return []
    return [module for module in modules if not _ignored(module.name, scheme.ignore)]


def preflight(name: str, scheme: Scheme, modules: Iterable[Linear]) -> None:
    """Check every linear module that the scheme quantizes.

    Raises:
        ConfigError: with each distinct size that a group or block does not divide.
    """
    file = f"configs/schemes/{name}.yaml"
    faults: dict[str, Fault] = {}
    if scheme.weights is None:
        return
    for module in quantized_modules(scheme, modules):
        for fault in _misfits(file, "weights", scheme.weights, module):
            faults.setdefault(f"{fault.key} {fault.message.split(' (')[0]}", fault)
    if faults:
        raise ConfigError(faults.values())


def _misfits(file: str, key: str, args: QuantArgs, module: Linear) -> list[Fault]:
    found = []
    if args.group_size and module.in_features % args.group_size:
        message = f"{args.group_size} does not divide {module.in_features} inputs ({module.name})"
        mend = f"take {_near(module.in_features, args.group_size)}, or ignore the module"
        found.append(Fault(file, f"{key}.group_size", message, mend))
    if args.block_structure:
        rows = args.block_structure[0]
        if module.out_features % rows:
            message = f"{rows} does not divide {module.out_features} outputs ({module.name})"
            mend = f"take {_near(module.out_features, rows)} rows, or ignore the module"
            found.append(Fault(file, f"{key}.block_structure", message, mend))
    return found


def _near(size: int, wanted: int) -> int:
    """The largest power of two up to ``wanted`` that divides ``size``."""
    candidate = 1
    while candidate * 2 <= wanted and size % (candidate * 2) == 0:
        candidate *= 2
    return candidate


def _ignored(module: str, patterns: Iterable[str]) -> bool:
    for pattern in patterns:
        if pattern.startswith("re:"):
            if re.match(pattern[3:], module):
                return True
        elif module == pattern or module.endswith("." + pattern):
            return True
    return False
