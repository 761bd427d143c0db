"""Whether the calibration set covers what the model is evaluated on, before it is used."""

from qpipe.coverage._stage import check_calibration
from qpipe.coverage._table import check_table

__all__ = ["check_calibration", "check_table"]
