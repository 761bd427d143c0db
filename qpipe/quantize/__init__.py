"""From the model and a scheme to a checked checkpoint."""

from qpipe.quantize._ready import ready_faults
from qpipe.quantize._stage import TOOLS, make_variant

__all__ = ["TOOLS", "make_variant", "ready_faults"]
