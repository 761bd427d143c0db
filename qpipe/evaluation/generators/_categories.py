"""Which templates a category has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qpipe.evaluation.generators import (
    _classification,
    _code,
    _code_generation,
    _extraction,
    _instructions,
    _long_context,
    _low_resource,
    _math,
    _reasoning,
)
from qpipe.evaluation.generators._draw import Template
from qpipe.evaluation.generators._long_context import DEPTHS, LENGTHS, Length

__all__ = ["categories"]


def categories(
    lengths: Sequence[Length] = LENGTHS, depths: Sequence[int] = DEPTHS
) -> Mapping[str, Sequence[Template]]:
    """Templates by category, in the order of the suite files; lengths and depths of long-context."""
    return {
        "reasoning": _reasoning.TEMPLATES,
        "code": _code.TEMPLATES,
        "math": _math.TEMPLATES,
        "extraction": _extraction.TEMPLATES,
        "low-resource": _low_resource.TEMPLATES,
        "long-context": _long_context.templates(lengths, depths),
        "classification": _classification.TEMPLATES,
        "instruction-following": _instructions.TEMPLATES,
        "code-generation": _code_generation.TEMPLATES,
    }
