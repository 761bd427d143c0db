"""Templates of the business rows: one module a category, answers right by construction."""

from qpipe.evaluation.generators._categories import categories
from qpipe.evaluation.generators._draw import Draft, Maker, Template, draw, shots
from qpipe.evaluation.generators._long_context import (
    DEPTHS,
    LENGTHS,
    Length,
    in_tokens,
    in_words,
)

__all__ = [
    "DEPTHS",
    "LENGTHS",
    "Draft",
    "Length",
    "Maker",
    "Template",
    "categories",
    "draw",
    "in_tokens",
    "in_words",
    "shots",
]
