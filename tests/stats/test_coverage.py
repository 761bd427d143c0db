"""How often the 95% intervals hold the truth: exactly where outcomes can be enumerated."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

from qpipe.stats import paired_difference

SHARES = (-0.8, -0.4, 0.0, 0.3, 0.6)
"""True difference as a share of the discordance."""


@cache
def interval(wins: int, losses: int, n: int) -> tuple[float, float]:
    baseline, variant = np.zeros(n), np.zeros(n)
    variant[:wins] = 1
    baseline[wins : wins + losses] = 1
    result = paired_difference(baseline, variant)
    return result.ci_low, result.ci_high


def coverage(n: int, discordance: float, delta: float) -> float:
    """Probability, over all outcomes of the trinomial, that the interval holds ``delta``."""
    held = seen = 0.0
    most = int(stats.binom.ppf(1 - 1e-6, n, discordance))
    for discordant in range(most + 1):
        wins = np.arange(discordant + 1)
        chance = stats.binom.pmf(discordant, n, discordance) * stats.binom.pmf(
            wins, discordant, (1 + delta / discordance) / 2
        )
        for win, probability in zip(wins.tolist(), chance, strict=True):
            if probability > 1e-6:
                low, high = interval(win, discordant - win, n)
                seen += probability
                held += probability * (low <= delta <= high)
    return held / seen


@pytest.mark.parametrize("n", [40, 100, 200, 500, 1000])
@pytest.mark.parametrize("discordance", [0.02, 0.05, 0.1, 0.3])
def test_coverage_of_binary_scores(n: int, discordance: float) -> None:
    shares = SHARES if n * discordance < 40 else SHARES[1:3]
    found = [coverage(n, discordance, share * discordance) for share in shares]
    assert min(found) > 0.93 and float(np.mean(found)) > 0.935
    # Where two differing answers or fewer are expected, outcomes are too coarse for a narrow
    # interval: at 0.8 of them, one that leaves out zero at three against none covers 99%, and one
    # that does so at two against none 92%.
    if n * discordance >= 4:
        assert float(np.mean(found)) < 0.97


@pytest.mark.parametrize(("fields", "rounds"), [(1, 300), (5, 60)])
def test_coverage_with_repeats_of_one_question(fields: int, rounds: int) -> None:
    """Four repeats of each of 40 questions, a fifth of which the variant has lost."""
    rng = np.random.default_rng(11)
    truth, labels = 0.2 * (0.2 - 0.7), np.arange(40).repeat(4)
    clustered = independent = 0
    for _ in range(rounds):
        chance = np.where(rng.random(40) < 0.2, 0.2, 0.7).repeat(4)
        baseline = rng.binomial(fields, 0.7, 160) / fields
        variant = rng.binomial(fields, chance) / fields
        result = paired_difference(baseline, variant, clusters=labels.tolist())
        clustered += result.ci_low <= truth <= result.ci_high
        result = paired_difference(baseline, variant)
        independent += result.ci_low <= truth <= result.ci_high
    assert 0.92 <= clustered / rounds <= 0.985
    assert independent < clustered


def test_rare_losses_of_graded_answers_are_not_passed() -> None:
    """A few questions are lost whole; most others do not move, some do by a little."""
    rng = np.random.default_rng(5)
    for n, rounds in ((16, 400), (40, 300)):
        passed = 0
        for _ in range(rounds):
            baseline = np.full(n, 0.9)
            change = np.where(rng.random(n) < 0.2, rng.choice([-0.1, 0.1], n), 0.0)
            variant = np.where(rng.random(n) < 0.08, 0.0, baseline + change).clip(0, 1)
            # The true loss is about 0.072: a margin of 0.05 must not be passed.
            passed += paired_difference(baseline, variant).ci_low > -0.05
        assert passed / rounds <= 0.05


def test_graded_answers_are_no_surer_than_right_and_wrong_ones() -> None:
    baseline = np.full(40, 0.5)
    one = baseline.copy()
    one[0] = 0.6
    none, some = paired_difference(baseline, baseline), paired_difference(baseline, one)
    assert some.ci_low <= none.ci_low + one.mean() - 0.5 + 1e-9
    assert some.ci_high >= none.ci_high
    # Log-likelihoods have no such floor: every text says something of the difference.
    texts = np.linspace(-4, -3, 40)
    exact = paired_difference(texts, texts - 0.01 + np.linspace(-1e-3, 1e-3, 40))
    assert -0.011 < exact.ci_low < exact.ci_high < -0.009


def test_one_label_a_question_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    baseline, variant = rng.random(50), rng.random(50)
    assert paired_difference(baseline, variant, clusters=range(50)) == paired_difference(
        baseline, variant
    )


@pytest.mark.parametrize("copies", [2, 5])
def test_copies_of_a_question_add_nothing(copies: int) -> None:
    baseline, variant = np.array([1.0, 1, 1, 0, 1, 0] * 10), np.array([1.0, 0, 1, 1, 0, 0] * 10)
    once = paired_difference(baseline, variant)
    labels = np.arange(60).repeat(copies).tolist()
    again = paired_difference(baseline.repeat(copies), variant.repeat(copies), clusters=labels)
    assert (again.ci_low, again.ci_high) == pytest.approx((once.ci_low, once.ci_high), abs=5e-3)
    assert again.clusters == 60
