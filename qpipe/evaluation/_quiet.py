"""Keeps lm-eval's messages in a log and its progress bars off the terminal."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["quiet"]


@contextlib.contextmanager
def quiet(log: Path) -> Iterator[None]:
    """lm-eval's messages go to ``log``; its progress bars go nowhere."""
    # Without PyTorch, which is not needed here, transformers says so at its import.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import datasets
    from tqdm import tqdm  # type: ignore[import-untyped]

    def without_bar(bar: Any, *arguments: Any, **settings: Any) -> None:
        original(bar, *arguments, **{**settings, "disable": True})

    original = tqdm.__init__
    log.parent.mkdir(parents=True, exist_ok=True)
    logger = logging.getLogger("lm_eval")
    handler = logging.FileHandler(log, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    kept = (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    tqdm.__init__ = without_bar
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
        logger.setLevel(kept[0])
        logger.propagate = kept[1]
        tqdm.__init__ = original
        datasets.enable_progress_bars()
