"""From the model and a scheme to a checked checkpoint."""

from qpipe.quantize._stage import made_schemes, make_variant

__all__ = ["made_schemes", "make_variant"]
