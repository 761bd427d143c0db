"""Templates of the business rows: one module a category, answers right by construction."""

from qpipe.evaluation.generators._categories import WORDS, categories
from qpipe.evaluation.generators._draw import Draft, Maker, Template, draw, shots

__all__ = ["WORDS", "Draft", "Maker", "Template", "categories", "draw", "shots"]
