"""How much a number of questions can show."""

from __future__ import annotations

import math

from scipy import stats

__all__ = ["questions_needed", "smallest_margin"]


def smallest_margin(
    disagreement: float, questions: float, confidence: float = 0.95, power: float = 0.8
) -> float:
    """The smallest non-inferiority margin that so many questions certify with this power.

    ``(z_alpha + z_beta) * sqrt(disagreement / questions)`` for a variant that is truly equal
    (arXiv 2605.28873); never below what questions without a disagreement certify. Where questions
    depend on each other, ``questions`` is their number by the design effect.
    """
    z = _quantile(confidence)
    reach = (z + float(stats.norm.ppf(power))) * math.sqrt(disagreement / questions)
    return min(1.0, max(reach, z * z / (questions + z * z)))


def questions_needed(
    disagreement: float,
    margin: float,
    delta: float = 0.0,
    confidence: float = 0.95,
    power: float = 0.8,
) -> float:
    """How many questions decide ``margin`` if ``delta`` and the disagreement stay as they are.

    The inverse of :func:`smallest_margin`; infinite where ``delta`` lies on the margin.
    """
    distance = abs(margin + delta)
    if distance == 0:
        return math.inf
    z = _quantile(confidence)
    by_variance = disagreement * ((z + float(stats.norm.ppf(power))) / distance) ** 2
    # With no disagreement at all the score interval still reaches z^2 / (n + z^2).
    by_width = z * z * max(0.0, 1 - distance) / distance
    return max(by_variance, by_width, 1.0)


def _quantile(confidence: float) -> float:
    """One bound of the two-sided interval decides, so alpha is half of its error."""
    return float(stats.norm.ppf(0.5 + confidence / 2))
