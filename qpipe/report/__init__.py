"""The release on one page: HTML, Markdown and the terminal's table."""

from qpipe.report._report import report
from qpipe.report._table import verdict_table

__all__ = ["report", "verdict_table"]
