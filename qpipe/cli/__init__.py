"""The command line. It translates; the work is in the packages, imported when a command runs."""

from qpipe.cli._main import main

__all__ = ["main"]
