"""Two scores a question, one of the baseline and one of the variant."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from qpipe.stats._clusters import FEW, mean_interval
from qpipe.stats._resample import BATCH, RESAMPLES, Array

__all__ = ["Paired", "holm", "paired_difference", "simultaneous"]

_STEP = 1e-9  # keeps the root search off the score equation's trivial roots


@dataclass(frozen=True)
class Paired:
    """Variant minus baseline over the same questions."""

    n: int
    mean_baseline: float
    mean_variant: float
    delta: float
    ci_low: float
    ci_high: float
    ci_low_all: float
    """With ``ci_high_all`` an interval that holds for all ``comparisons`` together."""
    ci_high_all: float
    p_value: float
    """Two-sided, against no difference."""
    wins: int
    """Questions on which the variant scores higher."""
    losses: int
    """Questions on which it scores lower."""
    disagreement: float
    """Mean squared difference; for 0/1 scores the share of questions that differ."""
    design_effect: float
    """How many questions say as much as one that stands alone, at least 1."""
    clusters: int
    """Independent groups of questions; ``n`` where every question stands alone."""
    method: str


def paired_difference(
    baseline: Array,
    variant: Array,
    confidence: float = 0.95,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
    comparisons: int = 1,
) -> Paired:
    """The mean paired difference, its interval and its p-value.

    0/1 scores: exact McNemar test, and the score interval of Tango (1998, Statistics in Medicine
    17:891-908), which has a proper width even where no answer differs. Other scores: BCa bootstrap
    (Efron 1987, JASA 82:171-185; Student's t below 20 questions) and a sign-flip permutation test
    over questions. Where they are shares, the interval is at least Tango's for as many equal
    answers: a loss of a few questions that none of them shows is not in any resample.

    Args:
        baseline: one score a question.
        variant: the same questions in the same order.
        clusters: a label a question; questions that share one (repeats, one template's) depend on
            each other, so both bootstrap and sign flips move whole clusters (Davison and Hinkley
            1997, section 3.8).
        comparisons: how many such differences are looked at together.

    Raises:
        ValueError: the arrays are empty, unequal in length, or not finite.
    """
    base, other = np.asarray(baseline, dtype=np.float64), np.asarray(variant, dtype=np.float64)
    if base.ndim != 1 or base.shape != other.shape or base.size == 0:
        raise ValueError(f"paired scores need one shape, not {base.shape} and {other.shape}")
    if not (np.isfinite(base).all() and np.isfinite(other).all()):
        raise ValueError("paired scores must be finite")
    difference = other - base
    n, wins, losses = base.size, int((difference > 0).sum()), int((difference < 0).sum())
    labels = np.arange(n) if clusters is None else pd.factorize(np.asarray(clusters))[0]
    if labels.shape != base.shape:
        raise ValueError(f"{n} scores need {n} cluster labels, not {labels.size}")
    groups = int(labels.max()) + 1
    effect = _design_effect(difference, labels)
    sizes = np.bincount(labels).astype(float)
    means = np.bincount(labels, difference) / sizes
    interval: Callable[[float], tuple[float, float]]
    if np.isin(base, (0, 1)).all() and np.isin(other, (0, 1)).all():
        interval = partial(_tango, wins / effect, losses / effect, n / effect)
        method = "Tango score interval"
    elif np.ptp(means) == 0:
        spread = float(np.ptp([base, other]))
        interval = partial(_constant, float(means[0]), spread, n / effect)
        method = "score interval of a constant difference"
    else:
        shares = min(base.min(), other.min()) >= 0 and max(base.max(), other.max()) <= 1
        interval = partial(_graded, means, sizes, seed, n / effect if shares else None)
        method = "BCa bootstrap" if groups >= FEW else "Student's t"
    low, high = interval(confidence)
    low_all, high_all = (
        (low, high) if comparisons <= 1 else interval(simultaneous(confidence, comparisons))
    )
    if groups == n and method.startswith("Tango"):
        p_value, test = _mcnemar(wins, losses), "exact McNemar"
    else:
        p_value = _sign_flips(_totals(labels, base), _totals(labels, other), seed)
        test = "sign flips"
    delta = float(difference.mean())
    return Paired(
        n=n,
        mean_baseline=float(base.mean()),
        mean_variant=float(other.mean()),
        delta=delta,
        ci_low=min(low, delta),
        ci_high=max(high, delta),
        ci_low_all=min(low_all, delta),
        ci_high_all=max(high_all, delta),
        p_value=min(1.0, p_value),
        wins=wins,
        losses=losses,
        disagreement=float(np.square(difference).mean()),
        design_effect=effect,
        clusters=groups,
        method=f"{test}, {method}" + (f" over {groups} clusters" if groups < n else ""),
    )


def simultaneous(confidence: float, comparisons: int) -> float:
    """The confidence of each interval with which all hold together (Bonferroni)."""
    return 1 - (1 - confidence) / max(1, comparisons)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (1979): controls the chance of one false alarm in the family."""
    if not p_values:
        return []
    return [float(p) for p in multipletests(p_values, method="holm")[1]]


def _mcnemar(wins: int, losses: int) -> float:
    if wins + losses == 0:
        return 1.0
    return float(mcnemar([[0, wins], [losses, 0]], exact=True).pvalue)


def _totals(labels: NDArray[np.intp], values: Array) -> Array:
    return np.bincount(labels, values).astype(np.float64)


def _design_effect(difference: Array, labels: NDArray[np.intp]) -> float:
    """By how much dependence within clusters inflates the variance of the mean, at least 1.

    Rao and Scott (1992, Biometrics 48:577-585): counts divided by it behave like independent ones.
    Without any spread to learn it from, a cluster counts as one question.
    """
    n, groups = difference.size, int(labels.max()) + 1
    if groups in (1, n):
        return n / groups
    residuals = difference - difference.mean()
    alone = float(np.square(residuals).sum()) * n / (n - 1)
    if alone == 0:
        return n / groups
    within = float(np.square(np.bincount(labels, residuals)).sum()) * groups / (groups - 1)
    return max(1.0, within / alone)


def _tango(wins: float, losses: float, n: float, confidence: float) -> tuple[float, float]:
    """Where Tango's score statistic of ``p_win - p_loss = d`` meets the normal quantile."""
    return _tango_low(wins, losses, n, confidence), -_tango_low(losses, wins, n, confidence)


def _tango_low(wins: float, losses: float, n: float, confidence: float) -> float:
    z = float(stats.norm.ppf(0.5 + confidence / 2))

    def excess(d: float) -> float:
        # The restricted maximum-likelihood estimate of p_loss under p_win = p_loss + d.
        b = -wins - losses + (2 * n - wins + losses) * d
        c = -losses * d * (1 - d)
        p_loss = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
        variance = n * max(2 * p_loss + d * (1 - d), 0.0)
        return wins - losses - n * d - z * math.sqrt(variance)

    top = (wins - losses) / n - _STEP
    if top <= -1:
        return -1.0
    return float(optimize.brentq(excess, -1.0, top))


def _graded(
    means: Array, sizes: Array, seed: int, shares: float | None, confidence: float
) -> tuple[float, float]:
    """Over clusters; ``shares``: how many independent questions scores from 0 to 1 are of."""
    mean, low, high = mean_interval(means, sizes, confidence, seed)
    if shares is None:
        return low, high
    least_low, least_high = _constant(mean, 1.0, shares, confidence)
    return min(low, least_low), max(high, least_high)


def _constant(difference: float, spread: float, n: float, confidence: float) -> tuple[float, float]:
    """No resample differs, so the bootstrap has no width: take that of n equal 0/1 answers."""
    low, high = _tango(0, 0, n, confidence)
    scale = max(1.0, spread)
    return difference + scale * low, difference + scale * high


def _sign_flips(base: Array, other: Array, seed: int) -> float:
    def mean_difference(x: Array, y: Array, axis: int) -> Array:
        return np.asarray(np.mean(y - x, axis=axis))

    result = stats.permutation_test(
        (base, other),
        mean_difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=BATCH,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)
