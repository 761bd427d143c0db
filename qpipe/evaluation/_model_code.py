"""Tasks that run code which the model wrote: only where the user says so."""

from __future__ import annotations

import os

from qpipe.errors import EnvError

__all__ = ["ALLOW_CODE", "code_refused", "may_run_code"]

ALLOW_CODE = "HF_ALLOW_CODE_EVAL"


def may_run_code() -> bool:
    """Whether the user allowed it."""
    return os.environ.get(ALLOW_CODE) == "1"


def code_refused(task: str) -> EnvError:
    """The error of a task that would run code without being allowed to."""
    return EnvError(
        f"'{task}' runs code that the model wrote",
        mend=f"set {ALLOW_CODE}=1 where that is safe, or take '{task}' out of its suite",
    )
