"""KL divergence from what a server tells: its top-k logprobs a position."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["coarse_kl"]

Floats = NDArray[np.float64]
# Below this a remainder is rounding noise of float32 logprobs.
REST_FLOOR = 1e-7


def coarse_kl(
    ids_p: list[int], logprobs_p: list[float], ids_q: list[int], logprobs_q: list[float]
) -> float:
    """KL(P ‖ Q) at one position, nats, over the tokens both list plus one bucket for the rest.

    A lower bound of the full-vocabulary KL: merging outcomes cannot raise it (data-processing
    inequality; Cover & Thomas, Elements of Information Theory, 2nd ed., eq. 2.133).
    """
    q_of = dict(zip(ids_q, logprobs_q, strict=True))
    both = [(p, q_of.get(token, -np.inf)) for token, p in zip(ids_p, logprobs_p, strict=True)]
    # A probability of exactly zero belongs to the rest, whose floor keeps the sum finite.
    shared = [pair for pair in both if -np.inf not in pair]
    log_p: Floats = np.array([p for p, _ in shared], dtype=np.float64)
    log_q: Floats = np.array([q for _, q in shared], dtype=np.float64)
    p, q = np.exp(log_p), np.exp(log_q)
    rest_p = max(1.0 - float(p.sum()), REST_FLOOR)
    rest_q = max(1.0 - float(q.sum()), REST_FLOOR)
    kl = float((p * (log_p - log_q)).sum()) + rest_p * float(np.log(rest_p / rest_q))
    # Both sides sum to one only up to rounding; the true value is never negative.
    return max(kl, 0.0)
