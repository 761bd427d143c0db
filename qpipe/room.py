"""What a step takes of disk and memory, against what is there."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from qpipe.errors import EnvError

__all__ = ["GIB", "RUNTIME", "Need", "disk_free", "memory_free", "memory_total", "require_room"]

GIB = 2**30
RUNTIME = 1 * GIB
"""torch, llm-compressor and their like, loaded; on a GPU the context."""


@dataclass(frozen=True)
class Need:
    """Bytes of one resource: what a step takes, and what is there."""

    what: str
    """The resource and the step, as a sentence begins: ``disk for the checkpoint``."""
    needed: float
    there: float
    mend: str

    @property
    def fits(self) -> bool:
        """Whether there is enough."""
        return self.needed <= self.there

    def __str__(self) -> str:
        return f"{self.what}: {self.needed / GIB:.2f} GiB needed, {self.there / GIB:.2f} GiB there"


def require_room(needs: Iterable[Need]) -> None:
    """Check that all of it fits.

    Raises:
        EnvError: with everything that does not.
    """
    short = [need for need in needs if not need.fits]
    if short:
        mends = "; ".join(dict.fromkeys(need.mend for need in short))
        raise EnvError("not enough room: " + "; ".join(map(str, short)), mend=mends)


def disk_free(folder: Path) -> int:
    """Bytes free on the filesystem of ``folder``."""
    return shutil.disk_usage(folder).free


def memory_free() -> int:
    """Bytes of memory and swap that programs can have now."""
    return psutil.virtual_memory().available + psutil.swap_memory().free


def memory_total() -> int:
    """Bytes of memory and swap of the machine."""
    return psutil.virtual_memory().total + psutil.swap_memory().total
