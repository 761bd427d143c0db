"""Many requests of one kind at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["another_concurrency", "each"]

S = TypeVar("S")
T = TypeVar("T")


def each(ask: Callable[[S], T], inputs: Sequence[S], concurrency: int) -> list[T]:
    """The answers in the order of ``inputs``, with so many requests in flight."""
    with ThreadPoolExecutor(concurrency) as pool:
        try:
            return list(pool.map(ask, inputs))
        except BaseException:  # Ctrl-C must not wait for those that are still to come
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def another_concurrency(concurrency: int) -> int:
    """One that composes batches otherwise, above 1: at 1 lm-eval sends in its own order."""
    return concurrency // 2 if concurrency > 3 else concurrency + 1
