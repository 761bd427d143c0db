"""Checks a scheme against the model's shapes before any work starts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from qpipe.config import Scheme
from qpipe.errors import ConfigError, Fault
from qpipe.model import Architecture, Linear
from qpipe.schemes._split import RELEASE, head_faults, misfits
from qpipe.schemes._units import units_of

__all__ = ["preflight", "quantized_modules"]

EXPERT = re.compile(r".*\.experts\.\d+\.")


def quantized_modules(scheme: Scheme, modules: Iterable[Linear]) -> list[Linear]:
    """The linear modules whose weights the scheme quantizes."""
    if scheme.weights is None:
        return []
    return [module for module in modules if not _ignored(module.name, scheme.ignore)]


def preflight(
    schemes: Mapping[str, Scheme],
    modules: Collection[Linear],
    devices: Mapping[str, int] | None = None,
    architecture: Architecture | None = None,
) -> None:
    """Check each scheme, by name, on every linear module that it quantizes.

    ``devices`` says how many a scheme's variants are spread over, where that is more than one.
    Heads, experts, and names on ignore lists are checked where the ``architecture`` is known.

    Raises:
        ConfigError: with each distinct size that a group, block, packed integer or device of any
            scheme does not divide, each fused unit that is ignored in part, each ignored name that
            the model lacks, each scheme of weights that quantizes nothing, and a model of experts.
    """
    faults: dict[tuple[object, ...], Fault] = {}
    for name, scheme in sorted(schemes.items()):
        spread = (devices or {}).get(name, 1)
        if architecture is not None:
            for fault in head_faults(architecture, spread):
                faults.setdefault((fault.key, fault.message), fault)
            if scheme.steps and any(map(EXPERT.match, architecture.modules)):
                # transformers 5 makes one tensor of a layer's experts when it loads them.
                message = "qpipe cannot quantize models with experts yet"
                mend = "take a dense model, or schemes without `steps`"
                faults["experts",] = Fault(RELEASE, "model.source", message, mend)
        if scheme.weights is None:
            continue
        file = f"configs/schemes/{name}.yaml"
        quantized = quantized_modules(scheme, modules)
        if not quantized:
            message = "no linear module of this model is quantized"
            mend = "ignore less; qpipe knows modules named *_proj inside the blocks"
            faults[file, "ignore"] = Fault(file, "ignore", message, mend)
            continue
        for module in quantized:
            for size, fault in misfits(file, scheme, module, spread, architecture):
                faults.setdefault((file, fault.key, size), fault)
        known = [] if architecture is None else [*(m.name for m in modules), *architecture.modules]
        for message, mend in [*_torn(scheme.ignore, modules), *_unknown(scheme.ignore, known)]:
            faults[file, message] = Fault(file, "ignore", message, mend)
    if faults:
        raise ConfigError(faults.values())


def _torn(ignore: Sequence[str], modules: Iterable[Linear]) -> Iterator[tuple[str, str]]:
    """Units with some modules ignored: the engine refuses a fused matrix of two precisions.

    Units that differ only in the layer are told once.
    """
    torn: dict[tuple[str, ...], list[str]] = {}
    for unit, members in units_of(module.name for module in modules).items():
        left = [member for member in members if _ignored(member, ignore)]
        if 0 < len(left) < len(members):
            parts, rest = (
                sorted({member.removeprefix(f"{_parent(unit)}.") for member in some})
                for some in (left, set(members) - set(left))
            )
            kind = (re.sub(r"[0-9]+", "N", unit), ", ".join(parts), ", ".join(rest))
            torn.setdefault(kind, []).append(unit)
    for (_, parts_named, rest_named), units in torn.items():
        more = f" and {len(units) - 1} more" if len(units) > 1 else ""
        message = f"of {units[0]}{more}, which the engine fuses, only {parts_named} is ignored"
        yield message, f"ignore {rest_named} too, or no part of it"


def _unknown(ignore: Iterable[str], known: Collection[str]) -> Iterator[tuple[str, str]]:
    for pattern in ignore if known else ():
        if not any(_ignored(name, [pattern]) for name in known):
            message = f"'{pattern}' matches no module of this model"
            yield message, "correct or remove it; `re:` starts a regular expression"


def _parent(module: str) -> str:
    return module.rpartition(".")[0]


def _ignored(module: str, patterns: Iterable[str]) -> bool:
    for pattern in patterns:
        if pattern.startswith("re:"):
            if re.match(pattern[3:], module):
                return True
        elif module == pattern or module.endswith("." + pattern):
            return True
    return False
