"""``qpipe doctor``: what this machine is, and which schemes run on it."""

from qpipe.doctor._examine import examine
from qpipe.doctor._table import show

__all__ = ["examine", "show"]
