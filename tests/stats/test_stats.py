from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from qpipe.stats import (
    cluster_mean_interval,
    holm,
    mean_interval,
    paired_difference,
    questions_needed,
    smallest_margin,
)

pairs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


def arrays(wins: int, losses: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    baseline = np.array([0.0] * wins + [1.0] * (n - wins))
    variant = np.array([1.0] * wins + [0.0] * losses + [1.0] * (n - wins - losses))
    return baseline, variant


@given(pairs)
def test_interval_holds_the_difference_and_has_a_width(rows: list[tuple[bool, bool]]) -> None:
    baseline, variant = np.array(rows, dtype=float).T
    result = paired_difference(baseline, variant)
    assert -1 <= result.ci_low <= result.delta <= result.ci_high <= 1
    assert result.ci_high - result.ci_low > 0.01
    assert 0 < result.p_value <= 1
    assert result.delta == pytest.approx((result.wins - result.losses) / result.n)


@given(pairs)
def test_swapping_the_arms_mirrors_everything(rows: list[tuple[bool, bool]]) -> None:
    baseline, variant = np.array(rows, dtype=float).T
    one, two = paired_difference(baseline, variant), paired_difference(variant, baseline)
    assert one.ci_low == pytest.approx(-two.ci_high, abs=1e-6)
    assert one.p_value == pytest.approx(two.p_value)
    assert (one.wins, one.losses) == (two.losses, two.wins)


@given(st.integers(1, 500))
def test_no_disagreement_has_the_closed_form_of_tango(n: int) -> None:
    result = paired_difference(*arrays(0, 0, n))
    z2 = scipy_stats.norm.ppf(0.975) ** 2
    assert result.ci_high == pytest.approx(z2 / (n + z2), abs=1e-6)
    assert result.ci_low == pytest.approx(-z2 / (n + z2), abs=1e-6)
    assert result.p_value == 1


def test_tango_published_example() -> None:
    # The example of Tango 1998: 44 pairs of which one disagrees.
    result = paired_difference(*arrays(1, 0, 44))
    assert result.ci_low == pytest.approx(-0.060, abs=1e-3)
    assert result.ci_high == pytest.approx(0.118, abs=1e-3)


def test_mcnemar_is_the_binomial_test() -> None:
    result = paired_difference(*arrays(3, 12, 50))
    assert result.p_value == pytest.approx(scipy_stats.binomtest(3, 15).pvalue)


def test_tango_covers() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(1000):
        wins, losses, _ = rng.multinomial(60, [0.05, 0.12, 0.83])
        result = paired_difference(*arrays(int(wins), int(losses), 60))
        hits += result.ci_low <= -0.07 <= result.ci_high
    assert 0.93 <= hits / 1000 <= 0.985


@settings(max_examples=10)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=30))
def test_fractional_scores(rows: list[tuple[float, float]]) -> None:
    baseline, variant = np.array(rows).T
    result = paired_difference(baseline, variant)
    assert result.ci_low <= result.delta <= result.ci_high
    assert 0 < result.p_value <= 1
    assert result == paired_difference(baseline, variant)


def test_equal_fractional_scores_have_a_width() -> None:
    scores = np.linspace(0, 1, 20)
    result = paired_difference(scores, scores)
    assert result.delta == 0 and result.p_value == 1
    assert result.ci_low < -0.1 and result.ci_high > 0.1


@pytest.mark.parametrize(
    ("baseline", "variant"), [([], []), ([1.0], [1.0, 0.0]), ([math.nan], [1.0])]
)
def test_unusable_scores_are_refused(baseline: list[float], variant: list[float]) -> None:
    with pytest.raises(ValueError):
        paired_difference(np.array(baseline), np.array(variant))


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@given(st.floats(0.01, 0.5), st.integers(20, 5000))
def test_needed_questions_invert_the_margin(disagreement: float, questions: int) -> None:
    margin = smallest_margin(disagreement, questions)
    if margin < 1:
        needed = questions_needed(disagreement, margin)
        assert needed == pytest.approx(questions, rel=1e-6)


def test_margin_on_the_difference_is_never_decided() -> None:
    assert questions_needed(0.1, 0.05, delta=-0.05) == math.inf


@settings(max_examples=10)
@given(
    st.lists(st.lists(st.floats(0, 5), min_size=1, max_size=20), min_size=1, max_size=8),
)
def test_cluster_mean_is_the_mean_of_all_positions(texts: list[list[float]]) -> None:
    mean, low, high = cluster_mean_interval([np.array(text) for text in texts])
    assert mean == pytest.approx(np.mean(np.concatenate(texts)))
    assert low <= mean <= high


def test_clusters_widen_the_interval() -> None:
    rng = np.random.default_rng(0)
    texts = [rng.normal(center, 0.1, 50) for center in rng.normal(2, 0.5, 10)]
    _, low, high = cluster_mean_interval(texts)
    flat = np.concatenate(texts)
    _, flat_low, flat_high = mean_interval(flat, np.ones_like(flat))
    assert high - low > 3 * (flat_high - flat_low)


@pytest.mark.parametrize("texts", [4, 8, 32])
@pytest.mark.parametrize("spread", [0.1, 0.4])
def test_cluster_interval_covers(texts: int, spread: float) -> None:
    rng, held = np.random.default_rng(5), 0
    for _ in range(1000):
        levels = rng.lognormal(-spread * spread / 2, spread, texts)  # of mean one
        values = [rng.exponential(level, rng.integers(40, 96)) for level in levels]
        _, low, high = cluster_mean_interval(values)
        held += low <= 1 <= high
    assert 0.92 <= held / 1000 <= 0.98


@given(st.lists(st.lists(st.floats(0, 1e6), min_size=1, max_size=4), min_size=2, max_size=3))
def test_few_texts_give_finite_bounds(texts: list[list[float]]) -> None:
    found = cluster_mean_interval([np.array(text) for text in texts])
    assert np.isfinite(found).all()


def test_one_text_alone_keeps_a_width() -> None:
    _, low, high = cluster_mean_interval([np.random.default_rng(0).exponential(1, 200)])
    assert high - low > 0.1


def test_no_value_is_refused() -> None:
    with pytest.raises(ValueError):
        cluster_mean_interval([np.array([])])
    with pytest.raises(ValueError):
        cluster_mean_interval([np.array([1.0, -0.1])])
    with pytest.raises(ValueError):
        mean_interval(np.array([1.0]), np.array([0.0]))
