"""What is wrong with a row, before it is known where the row stands."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

__all__ = ["Problem", "meant"]


class Problem(NamedTuple):
    """One fault of a row."""

    message: str
    mend: str = "correct the row"
    key: tuple[str | int, ...] = ()
    """Where in the row: field, index, field …; empty for the row as a whole."""


def meant(name: object, names: Iterable[str]) -> str:
    """The mend of a name that is none of ``names``."""
    names = list(names)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f"did you mean '{near[0]}'?" if near else f"one of: {', '.join(names)}"
