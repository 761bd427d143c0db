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

__all__ = ["WORDS", "categories"]

WORDS = _long_context.WORDS


def categories(words: Sequence[int] = WORDS) -> Mapping[str, Sequence[Template]]:
    """Templates by category, in the order of the suite files; ``words`` are long-context lengths."""
    return {
        "reasoning": _reasoning.TEMPLATES,
        "code": _code.TEMPLATES,
        "math": _math.TEMPLATES,
        "extraction": _extraction.TEMPLATES,
        "low-resource": _low_resource.TEMPLATES,
        "long-context": _long_context.templates(words),
        "classification": _classification.TEMPLATES,
        "instruction-following": _instructions.TEMPLATES,
        "code-generation": _code_generation.TEMPLATES,
    }
