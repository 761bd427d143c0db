"""Each limit by itself: a figure on either side of it."""

from __future__ import annotations

from typing import Any

import pytest

from qpipe.coverage import _judge
from qpipe.coverage._judge import judge_groups

REPORT = {"mix": "calib/mix.yaml", "sources": {"py": {"category": "code"}}}
SCRIPTS = {"LATIN": 0.99, "HAN": 0.01}


def group(**changes: Any) -> dict[str, Any]:
    figures = {
        "category": "code",
        "tokens": 1000,
        "drawn_coverage": 0.7,
        "coverage_reference": 0.7,
        "drawn_js": 0.6,
        "js_reference": 0.6,
        "scripts": {"LATIN": 1.0},
    }
    return {**figures, **changes}


def inside(**changes: Any) -> dict[str, Any]:
    figures = {
        "exceeding": 0.005,
        "worst_exceeding": 0.1,
        "worst_module": "down",
        "similarity": 0.97,
        "similarity_reference": 0.97,
        "least_similarity": 0.8,
        "least_similar_module": "q",
    }
    return {"activations": {**figures, **changes}}


def reasons(figures: dict[str, Any]) -> list[str]:
    found = list(judge_groups({"x": figures}, REPORT, SCRIPTS))
    return found[0]["reasons"] if found else []


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ({"drawn_coverage": 0.50}, {"drawn_coverage": 0.48}, "48% of its tokens"),
        ({"drawn_js": 0.68}, {"drawn_js": 0.69}, "0.69 bits from calibration's, and 0.60"),
        (inside(exceeding=0.011), inside(exceeding=0.013), "1.3% of input channels"),
        (inside(similarity=0.962), inside(similarity=0.960), "0.960 alike, 0.970"),
        (
            {"scripts": {"LATIN": 0.91, "THAI": 0.09}},
            {"scripts": {"LATIN": 0.89, "THAI": 0.11}},
            "11% of its letters are Thai, 0.0% of calibration's",
        ),
        # Enough of a script is enough.
        ({"scripts": {"HAN": 1.0}}, {"scripts": {"CYRILLIC": 1.0}}, "Cyrillic"),
    ],
)
def test_either_side_of_a_limit(good: dict[str, Any], bad: dict[str, Any], said: str) -> None:
    assert reasons(group(**good)) == []
    (reason,) = reasons(group(**bad))
    assert said in reason
    assert reasons(group(**bad, tokens=_judge.FEWEST_TOKENS - 1)) == []


def test_without_a_reference_only_scripts_and_channels_judge() -> None:
    alone = {"drawn_coverage": 0.0, "coverage_reference": None, "js_reference": None}
    assert reasons(group(**alone, **inside(similarity=0, similarity_reference=None))) == []
    assert len(reasons(group(**alone, **inside(exceeding=1)))) == 1
    assert len(reasons(group(**alone, scripts={"THAI": 1.0}))) == 1


def test_mends_name_the_source_or_the_category() -> None:
    bad = group(scripts={"THAI": 1.0})
    (here,) = judge_groups({"x": bad}, REPORT, SCRIPTS)
    (there,) = judge_groups({"x": {**bad, "category": "thai"}}, REPORT, SCRIPTS)
    assert here["mend"] == (
        "raise the weight of 'py' in calib/mix.yaml, or give it more text in Thai script"
    )
    assert there["mend"].startswith("add a source of category 'thai' in Thai script")
