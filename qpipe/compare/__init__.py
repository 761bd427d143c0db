"""Every variant against the baseline: paired scores, fidelity, speed and memory."""

from qpipe.compare._compare import compare

__all__ = ["compare"]
