"""A user's own questions: begun, checked and shown before any model is asked."""

from qpipe.evalset._check import (
    all_suites,
    calibration_leaks,
    check_evalsets,
    leak_fault,
    suite_faults,
)
from qpipe.evalset._init import init_evalset
from qpipe.evalset._preview import preview_evalset

__all__ = [
    "all_suites",
    "calibration_leaks",
    "check_evalsets",
    "init_evalset",
    "leak_fault",
    "preview_evalset",
    "suite_faults",
]
