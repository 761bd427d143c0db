"""Schemes against a model and a machine: what fits, and what runs."""

from qpipe.schemes._declared import Declared, declared, disagreement
from qpipe.schemes._mode import WIDE, Mode, mode_of, quantized_kv, variant_mode
from qpipe.schemes._preflight import preflight, quantized_modules
from qpipe.schemes._units import unit_modules, units_of

__all__ = [
    "WIDE",
    "Declared",
    "Mode",
    "declared",
    "disagreement",
    "mode_of",
    "preflight",
    "quantized_kv",
    "quantized_modules",
    "unit_modules",
    "units_of",
    "variant_mode",
]
