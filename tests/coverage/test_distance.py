from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qpipe.coverage._distance import jensen_shannon, nearness, token_coverage

counts = (
    st.lists(st.integers(0, 50), min_size=4, max_size=4)
    .filter(any)
    .map(lambda values: np.array(values, dtype=float))
)
texts = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=80), min_size=1, max_size=6)


@given(counts, counts)
def test_divergence_is_a_symmetric_share_of_a_bit(a, b):
    js = jensen_shannon(a, b)
    assert 0 <= js <= 1 + 1e-9
    assert js == pytest.approx(jensen_shannon(b, a), abs=1e-9)
    assert js == pytest.approx(jensen_shannon(3 * a, b), abs=1e-9)


@given(counts)
def test_divergence_from_itself_is_zero(a):
    assert jensen_shannon(a, a) == pytest.approx(0, abs=1e-9)


def test_divergence_by_hand():
    # Half of one set is what the other is: 0.5 (log2(1/0.75)) + 0.5 (0.5 log2(0.5/0.75) + 0.5).
    assert jensen_shannon(np.array([1.0, 0]), np.array([1.0, 1])) == pytest.approx(0.311278)
    assert jensen_shannon(np.array([1.0, 0]), np.array([0, 5.0])) == pytest.approx(1)


@given(counts, counts)
def test_coverage_counts_tokens_not_types(counts, target):
    covered = sum(t for c, t in zip(counts, target, strict=True) if c > 0)
    assert token_coverage(counts, target) == pytest.approx(covered / target.sum())
    assert token_coverage(target, target) == 1


@given(texts, texts, st.lists(texts, max_size=3))
def test_any_texts_can_be_compared(group, rows, others):
    found = nearness(group, rows, others)
    assert 0 <= found.drawn_coverage <= found.coverage + 1e-9
    assert 0 <= found.drawn_js <= 1 + 1e-9
    assert (found.coverage_reference is None) == (not others)
    assert found.drawn_tokens <= sum(map(len, rows)) + 1


def words(rng, low, high, texts=12):
    return [rng.integers(low, high, 64).tolist() for _ in range(texts)]


def test_a_set_with_the_category_is_nearer_than_the_others_and_one_without_is_not():
    rng = np.random.default_rng(0)
    group, prose, code = words(rng, 0, 60), words(rng, 40, 100), words(rng, 80, 140)
    fitting = nearness(group, words(rng, 0, 60, 6) + words(rng, 40, 140, 6), [prose, code])
    foreign = nearness(group, words(rng, 100, 140), [prose, code])
    assert fitting.drawn_coverage > 1.5 * fitting.coverage_reference
    assert fitting.drawn_js < fitting.js_reference - 0.1
    assert foreign.drawn_coverage == foreign.coverage == 0
    assert foreign.drawn_js == pytest.approx(1) and foreign.js_reference < 0.9


def test_size_decides_neither_for_nor_against_a_set():
    rng = np.random.default_rng(1)
    group, others = words(rng, 0, 400), [words(rng, 0, 400, 8) for _ in range(4)]
    small, large = (nearness(group, words(rng, 0, 400, size), others) for size in (8, 200))
    assert small.js - large.js > 0.1  # what a bare divergence would say
    # Both sides are as large as the smaller one: all rows, or all the other texts.
    assert (small.drawn_tokens, large.drawn_tokens) == (8 * 64, 4 * 8 * 64)
    for found in (small, large):
        assert found.drawn_js == pytest.approx(found.js_reference, abs=0.05)
        assert found.drawn_coverage == pytest.approx(found.coverage_reference, abs=0.05)


def test_no_category_outweighs_another_in_the_reference():
    small, large = [[1] * 64], [[2] * 640]
    found = nearness([[1] * 10], [[1, 2] * 64], [small, large])
    # Half of the reference is the small category's: as far as rows that have half of it.
    assert found.js_reference == pytest.approx(found.drawn_js, abs=0.02)
