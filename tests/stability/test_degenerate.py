from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qpipe.stability import KINDS, degenerate_kinds
from qpipe.stability._degenerate import Sample


def kinds(text: str, prompt: str = "What is it?", reason: str | None = "stop") -> list[str]:
    return degenerate_kinds(Sample(prompt, text, reason))


@pytest.mark.parametrize(
    ("text", "prompt", "wanted"),
    [
        ("A plain answer, in order.", "What?", []),
        ("It is the the the the the the", "What?", ["loop"]),
        ("one two three. " * 5, "What?", ["loop"]),
        ("one two three. " * 2, "What?", []),
        ("1000000000", "How many?", ["loop"]),
        ("--------", "A rule?", ["loop"]),
        ("caf\ufffd", "What?", ["encoding"]),
        ("bell \x07 rings", "What?", ["encoding"]),
        ("Это совсем другой ответ", "What is it?", ["script"]),
        ("Это совсем другой ответ", "Переведите: it is", []),
        ("这是一个完全不同的回答而且很长", "What is it?", ["script"]),
        ("Да", "What is it?", []),
        ("", "What?", []),
    ],
)
def test_kinds(text: str, prompt: str, wanted: list[str]) -> None:
    assert kinds(text, prompt) == wanted


def test_cut_by_length() -> None:
    assert kinds("It is", reason="length") == ["cut"]


@given(st.text(), st.text())
def test_any_text_has_known_kinds(text: str, prompt: str) -> None:
    assert set(kinds(text, prompt)) <= set(KINDS)


@given(st.text(min_size=2, max_size=30).filter(lambda text: text == text.strip()))
def test_what_is_said_over_and_over_is_a_loop(piece: str) -> None:
    assert "loop" in kinds(piece * 6)
