"""The one call of scipy's bootstrap."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["BATCH", "RESAMPLES", "Array", "bootstrap_interval"]

Array = NDArray[np.float64]

RESAMPLES = 9_999
BATCH = 256  # bounds memory: resampling and jackknife make batch x n arrays


def bootstrap_interval(
    data: tuple[Array, ...], statistic: Callable[..., Array], confidence: float, seed: int
) -> tuple[float, float]:
    """BCa interval (Efron 1987, JASA 82:171-185); percentiles where BCa is not defined."""
    for method in ("BCa", "percentile"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.DegenerateDataWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            interval = stats.bootstrap(
                data,
                statistic,
                paired=len(data) > 1,
                vectorized=True,
                confidence_level=confidence,
                n_resamples=RESAMPLES,
                batch=BATCH,
                method=method,
                rng=np.random.default_rng(seed),
            ).confidence_interval
        if np.isfinite(interval.low) and np.isfinite(interval.high):
            break
    return float(interval.low), float(interval.high)
