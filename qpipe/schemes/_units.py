"""Units: the groups of linear modules that the engine fuses, which must share one precision."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["unit_modules", "units_of"]

# vLLM loads these as one matrix; experts of a layer are one fused kernel.
FUSED = (
    (re.compile(r"(.*\.self_attn)\.(q|k|v)_proj$"), r"\1.qkv_proj"),
    (re.compile(r"(.*\.mlp)\.(gate|up)_proj$"), r"\1.gate_up_proj"),
    (re.compile(r"(.*\.experts)\.\d+\..*$"), r"\1"),
)


def units_of(modules: Iterable[str]) -> dict[str, list[str]]:
    """Unit → its modules, in the order of first appearance."""
    units: dict[str, list[str]] = {}
    for module in modules:
        units.setdefault(_unit(module), []).append(module)
    return units


def unit_modules(modules: Iterable[str], chosen: Iterable[str]) -> list[str]:
    """The modules of the chosen units."""
    units = units_of(modules)
    return [module for unit in chosen for module in units[unit]]


def _unit(module: str) -> str:
    for pattern, name in FUSED:
        if pattern.match(module):
            return pattern.sub(name, module)
    return module
