from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from qpipe.fidelity import coarse_kl

Floats = NDArray[np.float64]
# What a list of top tokens leaves out and rounding may add.
SLACK = 1e-6


def top(logprobs: Floats, k: int) -> tuple[list[int], list[float]]:
    ids = np.argsort(-logprobs, kind="stable")[:k].tolist()
    return ids, [float(logprobs[index]) for index in ids]


def coarse(p: Floats, q: Floats, k: int) -> float:
    return coarse_kl(*top(p, k), *top(q, k))


def full(p: Floats, q: Floats) -> float:
    return float((np.exp(p) * (p - q)).sum())


@st.composite
def distributions(draw: st.DrawFn) -> tuple[Floats, Floats, int]:
    """Two log-distributions over one vocabulary, from flat to peaked, and a k."""
    size = draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    p = rng.normal(size=size) * draw(st.sampled_from([0.0, 0.5, 3.0, 12.0]))
    q = p + rng.normal(size=size) * draw(st.sampled_from([0.0, 1e-3, 0.3, 8.0]))
    k = draw(st.integers(1, size))
    return p - np.logaddexp.reduce(p), q - np.logaddexp.reduce(q), k


@given(distributions())
@settings(max_examples=300)
def test_never_negative_and_never_above_the_full_kl(case: tuple[Floats, Floats, int]) -> None:
    p, q, k = case
    found = coarse(p, q, k)
    assert found >= 0
    assert found <= full(p, q) + SLACK


@given(distributions())
def test_identical_is_zero(case: tuple[Floats, Floats, int]) -> None:
    p, _, k = case
    assert coarse(p, p, k) == 0


@given(distributions())
def test_whole_vocabulary_is_the_full_kl(case: tuple[Floats, Floats, int]) -> None:
    p, q, _ = case
    assert coarse(p, q, len(p)) == pytest.approx(full(p, q), abs=SLACK, rel=1e-6)


@given(distributions(), st.randoms(use_true_random=False))
def test_order_of_the_lists_is_no_matter(
    case: tuple[Floats, Floats, int], random: st.randoms
) -> None:
    p, q, k = case
    ids, logprobs = top(q, k)
    pairs = list(zip(ids, logprobs, strict=True))
    random.shuffle(pairs)
    mixed = coarse_kl(*top(p, k), [i for i, _ in pairs], [value for _, value in pairs])
    assert mixed == pytest.approx(coarse(p, q, k), abs=1e-9)


def test_by_hand() -> None:
    p, q = np.log([0.5, 0.3, 0.2]), np.log([0.6, 0.1, 0.3])
    # Tokens 0 of both lists are shared; 1 and 2 fall into the bucket.
    wanted = 0.5 * np.log(0.5 / 0.6) + 0.5 * np.log(0.5 / 0.4)
    assert coarse(p, q, 2) == pytest.approx(wanted)


def test_nothing_shared_tells_nothing() -> None:
    assert coarse_kl([1], [-0.1], [2], [-0.1]) == 0


def test_rounding_above_one_is_no_fault() -> None:
    high = float(np.log(0.5) + 1e-6)
    assert coarse_kl([1, 2], [high, high], [1, 2], [high, high]) == 0


@pytest.mark.parametrize(
    ("logprobs_p", "logprobs_q"),
    [
        ([0.0, -np.inf], [0.0, -np.inf]),
        ([0.0, -np.inf], [-0.7, -0.7]),
        ([-0.7, -0.7], [0.0, -np.inf]),
    ],
)
def test_zero_probability_is_finite(logprobs_p: list[float], logprobs_q: list[float]) -> None:
    found = coarse_kl([1, 2], logprobs_p, [1, 2], logprobs_q)
    assert np.isfinite(found)
    assert (found > 0) == (logprobs_p != logprobs_q)
