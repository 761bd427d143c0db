from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qpipe.evaluation.generators import Template, categories, draw


@pytest.mark.parametrize("category", categories())
def test_two_hundred_rows_are_distinct_and_even(category, release):
    rows = release[category]
    assert len({row["prompt"] for row in rows}) == len({row["id"] for row in rows}) == 200
    assert Counter(row["level"] for row in rows) == {1: 50, 2: 50, 3: 50, 4: 50}
    for level in (1, 2, 3, 4):
        names = Counter(row["tags"][0] for row in rows if row["level"] == level)
        assert len(names) >= 3
        # No form of question may speak for its level alone.
        assert max(names.values()) <= 25, names


@pytest.mark.parametrize("category", categories())
def test_a_smaller_draw_is_the_start_of_a_larger_one(category, release):
    assert draw(category, categories()[category], 11, 16) == release[category][:16]


@given(seed=st.integers(0, 10**6), size=st.integers(1, 60))
@settings(max_examples=20, deadline=None)
def test_every_start_of_a_draw_is_even(seed, size):
    rows = draw("math", categories()["math"], seed, size)
    counts = Counter(row["level"] for row in rows)
    assert max(counts.values()) - min(counts[level] for level in (1, 2, 3, 4)) <= 1


def test_seed_changes_rows():
    math = categories()["math"]
    assert draw("math", math, 1, 10) != draw("math", math, 2, 10)


def test_template_names_are_unique_in_a_category():
    for category, templates in categories().items():
        levels = {template.name: template.level for template in templates}
        assert all(levels[template.name] == template.level for template in templates), category


def test_too_many_rows_are_refused():
    templates = [
        Template("same", level, lambda rng: {"prompt": "the same"}) for level in (1, 2, 3, 4)
    ]
    with pytest.raises(ValueError, match=r"level . has no more different questions after 1 of 2"):
        draw("math", templates, 1, 2)
