"""Checks a scheme against the model's shapes before any work starts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from qpipe.config import QuantArgs, Scheme
from qpipe.errors import ConfigError, Fault
from qpipe.model import Linear

__all__ = ["preflight", "quantized_modules"]

# Tensor parallelism gives each device a part of these modules' inputs, and of others' outputs.
SPLIT_BY_INPUTS = ("o_proj", "down_proj")


def quantized_modules(scheme: Scheme, modules: Iterable[Linear]) -> list[Linear]:
    """The linear modules whose weights the scheme quantizes."""
    if scheme.weights is None:
        return []
    return [module for module in modules if not _ignored(module.name, scheme.ignore)]


def preflight(
    schemes: Mapping[str, Scheme],
    modules: Collection[Linear],
    devices: Mapping[str, int] | None = None,
) -> None:
    """Check each scheme, by name, on every linear module that it quantizes.

    ``devices`` says how many a scheme's variants are spread over, where that is more than one.

    Raises:
        ConfigError: with each distinct size that a group or block of any scheme does not divide,
            and each scheme of weights that quantizes nothing.
    """
    faults: dict[tuple[str, str, int], Fault] = {}
    for name, scheme in sorted(schemes.items()):
        if scheme.weights is not None:
            quantized = quantized_modules(scheme, modules)
            if not quantized:
                message = "no linear module of this model is quantized"
                mend = "ignore less; qpipe knows modules named *_proj inside the blocks"
                fault = Fault(f"configs/schemes/{name}.yaml", "ignore", message, mend)
                faults[fault.file, fault.key, 0] = fault
            for module in quantized:
                for size, fault in _misfits(
                    name, scheme.weights, module, (devices or {}).get(name, 1)
                ):
                    faults.setdefault((fault.file, fault.key, size), fault)
    if faults:
        raise ConfigError(faults.values())


def _misfits(
    name: str, args: QuantArgs, module: Linear, devices: int
) -> Iterable[tuple[int, Fault]]:
    """Sizes of ``module`` that a group or a block does not divide."""

    def fault(key: str, part: int, size: int, side: str, unit: str) -> tuple[int, Fault]:
        message = f"{part} does not divide {size} {side} ({module.name})"
        mend = f"take {_near(size, part)}{unit}, or ignore the module"
        return size, Fault(f"configs/schemes/{name}.yaml", f"weights.{key}", message, mend)

    if args.group_size and module.in_features % args.group_size:
        yield fault("group_size", args.group_size, module.in_features, "inputs", "")
    elif args.group_size and module.name.endswith(SPLIT_BY_INPUTS):
        inputs = module.in_features // devices
        if inputs % args.group_size:
            side = f"inputs on each of {devices} devices"
            yield fault("group_size", args.group_size, inputs, side, "")
    if args.block_structure and module.out_features % args.block_structure[0]:
        rows = args.block_structure[0]
        yield fault("block_structure", rows, module.out_features, "outputs", " rows")


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
