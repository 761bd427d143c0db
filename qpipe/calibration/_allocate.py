"""How many rows each source gives."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

__all__ = ["allocate", "largest_remainder"]


def allocate(
    samples: int, weights: Mapping[str, float], available: Mapping[str, int]
) -> dict[str, int]:
    """Rows a source by weight; what a short source cannot give goes to the others by weight.

    Raises:
        ValueError: all sources together have fewer than ``samples`` rows.
    """
    if sum(available[name] for name in weights) < samples:
        raise ValueError(f"fewer than {samples} rows are available")
    given: dict[str, int] = {}
    while True:
        unsettled = {name: weight for name, weight in weights.items() if name not in given}
        share = largest_remainder(samples - sum(given.values()), unsettled)
        short = {name: available[name] for name in share if share[name] > available[name]}
        if not short:
            rows = given | share
            return {name: rows[name] for name in weights}
        given |= short


def largest_remainder(samples: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Whole numbers in proportion to ``weights`` that sum to ``samples``; ties go to the first."""
    # Fractions of the decimal as written: 0.1 + 0.2 and 0.3 are then the same weight.
    exact = {name: Fraction(str(weight)) for name, weight in weights.items()}
    quota = {name: samples * weight / sum(exact.values()) for name, weight in exact.items()}
    rows = {name: int(share) for name, share in quota.items()}
    by_remainder = sorted(weights, key=lambda name: rows[name] - quota[name])
    for name in by_remainder[: samples - sum(rows.values())]:
        rows[name] += 1
    return rows
