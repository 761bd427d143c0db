"""Makers of the business rows: one module a category, answers right by construction."""

from qpipe.evaluation.generators._draw import Draft, Maker, draw, shots
from qpipe.evaluation.generators._makers import MAKERS

__all__ = ["MAKERS", "Draft", "Maker", "draw", "shots"]
