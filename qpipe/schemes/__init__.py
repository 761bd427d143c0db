"""Schemes against a model and a machine: what fits, and what runs."""

from qpipe.schemes._mode import Mode, mode_of
from qpipe.schemes._preflight import preflight
from qpipe.schemes._units import unit_modules, units_of

__all__ = ["Mode", "mode_of", "preflight", "unit_modules", "units_of"]
