"""Which fused units cost a variant most."""

from qpipe.sensitivity._stage import rank_units, source_faults

__all__ = ["rank_units", "source_faults"]
