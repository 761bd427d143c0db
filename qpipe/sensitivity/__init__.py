"""Which fused units cost a variant most."""

from qpipe.sensitivity._stage import rank_units

__all__ = ["rank_units"]
