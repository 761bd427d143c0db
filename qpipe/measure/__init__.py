"""One server a variant, and everything that needs it."""

from qpipe.measure._stage import PARTS, measure

__all__ = ["PARTS", "measure"]
