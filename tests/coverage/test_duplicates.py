from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from qpipe.coverage._duplicates import duplicates
from qpipe.coverage._lengths import lengths

text = st.lists(st.integers(0, 5), min_size=1, max_size=12)


def row(seed: int) -> list[int]:
    return random.Random(seed).choices(range(1000), k=100)


def test_exact_and_near_ones_are_told_apart() -> None:
    changed = [*row(1)[:50], 7, *row(1)[51:]]  # 5 of 96 grams differ
    half = row(1)[:50] + row(9)[:50]
    found = duplicates([row(1), row(2), row(1), changed, half])
    assert found == {"texts": 5, "exact": 1, "near": 1, "share": 2 / 5}


def test_nothing_repeats_nothing() -> None:
    assert duplicates([]) == {"texts": 0, "exact": 0, "near": 0, "share": 0.0}
    assert duplicates([[], [1], [2]])["share"] == 0


@given(st.lists(text, max_size=8))
def test_every_text_counts_once(texts: list[list[int]]) -> None:
    found = duplicates(texts)
    assert found["exact"] == len(texts) - len({tuple(each) for each in texts})
    assert found["exact"] + found["near"] <= max(0, len(texts) - 1)
    twice = duplicates(texts + texts)
    assert twice["exact"] == len(texts) + found["exact"] and twice["near"] == found["near"]


@given(st.lists(st.integers(0, 5000)), st.integers(1, 4096))
def test_lengths_are_all_in_their_bins(tokens: list[int], reach: int) -> None:
    found = lengths(tokens, reach)
    assert sum(found["histogram"].values()) == len(tokens)
    for bound, count in found["histogram"].items():
        low = 0 if bound == "16" else int(bound) // 2 + 1
        assert count == sum(low <= length <= int(bound) for length in tokens)
    assert found["longest"] == max(tokens, default=0)
    assert round(found["beyond"] * len(tokens)) == sum(length > reach for length in tokens)
