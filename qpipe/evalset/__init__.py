"""A user's own questions: begun, checked and shown before any model is asked."""

from qpipe.evalset._check import all_suites, check_evalsets, suite_faults
from qpipe.evalset._init import init_evalset
from qpipe.evalset._preview import preview_evalset

__all__ = [
    "all_suites",
    "check_evalsets",
    "init_evalset",
    "preview_evalset",
    "suite_faults",
]
