"""Intervals of a mean over values that come in texts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from qpipe.stats._resample import Array, bootstrap_interval

__all__ = ["FEW", "cluster_mean_interval", "mean_interval"]

FEW = 20

_WIDEST = 50.0  # on the log scale: two texts can say next to nothing, but not infinity


def cluster_mean_interval(
    values: Sequence[Array], confidence: float = 0.95
) -> tuple[float, float, float]:
    """Mean over all positions of all texts, and its interval; values are not negative.

    Positions of one text depend on each other; texts do not, so the error is that of a ratio of
    text totals (Cochran 1977, Sampling Techniques, equation 6.13). Student's t on the log scale, as
    such values are skewed: a bootstrap over four texts holds the truth in 80% of cases, this in 92
    to 95%. A text that is alone is cut into blocks (Künsch 1989), about the square root of its
    length, so that the interval keeps a width.

    Returns:
        mean, low, high; the three are equal where no text differs from another.

    Raises:
        ValueError: there is no value, or one is negative.
    """
    texts = [np.asarray(text, dtype=np.float64) for text in values]
    texts = [text for text in texts if text.size]
    if not texts or min(text.min() for text in texts) < 0:
        raise ValueError("there is no value to average, or one is negative")
    if len(texts) == 1:
        texts = np.array_split(texts[0], max(1, math.isqrt(texts[0].size)))
    count, sizes = len(texts), np.array([text.size for text in texts])
    totals = np.array([text.sum() for text in texts])
    mean = float(totals.sum() / sizes.sum())
    if count < 2 or mean == 0:
        return mean, mean, mean
    spread = float(np.square(totals - mean * sizes).sum()) * count / (count - 1)
    relative_error = math.sqrt(spread) / float(totals.sum())
    reach = float(stats.t.ppf(0.5 + confidence / 2, count - 1)) * relative_error
    reach = min(reach, _WIDEST)
    return mean, mean * math.exp(-reach), mean * math.exp(reach)


def mean_interval(
    per_text_values: Array, weights: Array, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float, float]:
    """Weighted mean of one value a text, and its interval over texts.

    A BCa bootstrap; below ``FEW`` texts, where that is too narrow (it holds the truth in 90% of
    cases at ten), Student's t with the error of a ratio of text totals (Cochran 1977, 6.13).

    Returns:
        mean, low, high; the three are equal where there is one text.

    Raises:
        ValueError: the arrays differ in shape or the weights do not sum to a positive number.
    """
    means, counts = np.asarray(per_text_values, np.float64), np.asarray(weights, np.float64)
    if means.shape != counts.shape or means.ndim != 1 or not counts.sum() > 0:
        raise ValueError("every text needs one value and one weight")
    mean = float((means * counts).sum() / counts.sum())
    if means.size < 2 or np.ptp(means) == 0:
        return mean, mean, mean

    if means.size < FEW:
        spread = float(np.square(counts * (means - mean)).sum()) * means.size / (means.size - 1)
        error = math.sqrt(spread) / float(counts.sum())
        reach = float(stats.t.ppf(0.5 + confidence / 2, means.size - 1)) * error
        return mean, mean - reach, mean + reach

    def weighted(totals: Array, sizes: Array, axis: int = -1) -> Array:
        return np.asarray(totals.sum(axis=axis) / sizes.sum(axis=axis))

    low, high = bootstrap_interval((means * counts, counts), weighted, confidence, seed)
    return mean, min(low, mean), max(high, mean)
