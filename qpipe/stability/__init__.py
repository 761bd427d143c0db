"""How steady a served variant answers when it is sampled: spread of scores, degenerate output."""

from qpipe.stability._degenerate import KINDS, degenerate_kinds
from qpipe.stability._stage import measure_stability

__all__ = ["KINDS", "degenerate_kinds", "measure_stability"]
