"""Schemes against a model and a machine: what fits, and what runs."""

from qpipe.schemes._declared import (
    QuantizationConfig,
    as_declared,
    declared,
    declared_in,
    disagreement,
    unlike,
)
from qpipe.schemes._mode import WIDE, Mode, kv_format, mode_of, quantized_kv, variant_mode
from qpipe.schemes._preflight import preflight, quantized_modules
from qpipe.schemes._ready_preflight import preflight_checkpoint
from qpipe.schemes._size import WIDE_BYTES, checkpoint_bytes
from qpipe.schemes._split import packed
from qpipe.schemes._units import unit_modules, units_of
from qpipe.schemes._work import Work, needs_rows, work_of

__all__ = [
    "WIDE",
    "WIDE_BYTES",
    "Mode",
    "QuantizationConfig",
    "Work",
    "as_declared",
    "checkpoint_bytes",
    "declared",
    "declared_in",
    "disagreement",
    "kv_format",
    "mode_of",
    "needs_rows",
    "packed",
    "preflight",
    "preflight_checkpoint",
    "quantized_kv",
    "quantized_modules",
    "unit_modules",
    "units_of",
    "unlike",
    "variant_mode",
    "work_of",
]
