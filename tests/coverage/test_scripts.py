from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qpipe.coverage._scripts import script_shares


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("Hallo, Wörld 123!", {"LATIN": 1}),
        ("ab我们", {"LATIN": 0.5, "HAN": 0.5}),
        ("ＡＢ㊀", {"LATIN": 2 / 3, "HAN": 1 / 3}),
        ("বাংলা", {"BENGALI": 1}),
        ("12 + 3 = 15", {}),
        ("", {}),
    ],
)
def test_letters_by_script(text: str, shares: dict[str, float]) -> None:
    assert script_shares([text]) == pytest.approx(shares)


@given(st.lists(st.text()))
def test_shares_sum_to_one_the_largest_first(texts: list[str]) -> None:
    shares = list(script_shares(texts).values())
    assert shares == sorted(shares, reverse=True)
    assert not shares or sum(shares) == pytest.approx(1)
