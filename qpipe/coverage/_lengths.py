"""Lengths of texts in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["lengths"]


def lengths(tokens: Sequence[int], reach: int) -> dict[str, Any]:
    """A histogram of lengths and the share beyond ``reach``, the positions calibration knows.

    ``histogram``: texts by upper bound (16, 32, 64 … tokens, inclusive), empty bins left out.
    """
    histogram: dict[int, int] = {}
    for length in tokens:
        bound = max(16, 1 << (length - 1).bit_length()) if length else 16
        histogram[bound] = histogram.get(bound, 0) + 1
    return {
        "longest": max(tokens, default=0),
        "histogram": {str(bound): histogram[bound] for bound in sorted(histogram)},
        "beyond": sum(length > reach for length in tokens) / len(tokens) if tokens else 0.0,
    }
