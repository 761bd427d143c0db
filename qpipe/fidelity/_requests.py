"""How texts are put to a server."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pandas as pd

__all__ = ["each", "first_halves"]

T = TypeVar("T")


def each(ask: Callable[[list[int]], T], inputs: list[list[int]], concurrency: int) -> list[T]:
    """The answers in the order of ``inputs``, with so many requests in flight."""
    with ThreadPoolExecutor(concurrency) as pool:
        try:
            return list(pool.map(ask, inputs))
        except BaseException:  # Ctrl-C must not wait for the texts that are still to come
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def first_halves(texts: pd.DataFrame) -> list[list[int]]:
    """Prompts that leave the second half of each text to be answered."""
    return [ids[: max(1, len(ids) // 2)] for ids in texts["text"]]
