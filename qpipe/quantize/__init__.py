"""From the model and a scheme to a checked checkpoint."""

from qpipe.quantize._stage import make_variant

__all__ = ["make_variant"]
