"""Which makers a category has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qpipe.evaluation.generators import (
    _classification,
    _code,
    _extraction,
    _low_resource,
    _math,
    _reasoning,
)
from qpipe.evaluation.generators._draw import Maker

__all__ = ["MAKERS"]

MAKERS: Mapping[str, Sequence[Maker]] = {
    "reasoning": _reasoning.MAKERS,
    "code": _code.MAKERS,
    "math": _math.MAKERS,
    "extraction": _extraction.MAKERS,
    "low-resource": _low_resource.MAKERS,
    "classification": _classification.MAKERS,
}
"""By category, in the order of the suite file."""
