"""Constraints on an answer's form that a program can check, after IFEval (arXiv 2311.07911)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from qpipe.evaluation._problems import Problem, meant
from qpipe.evaluation._text import occurrences, words

__all__ = ["KINDS", "share_met", "wrong_constraints"]

_BULLET = re.compile(r"[-*+•]\s")
_FENCE = re.compile(r"```\w*\n(.*?)\n?```", re.DOTALL)
_SHARE_OF_SCRIPT = 0.8

# Script → how the Unicode names of its letters start.
SCRIPTS: Mapping[str, tuple[str, ...]] = {
    **{
        name: (name.upper(),)
        for name in (
            "Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian",
            "Greek", "Gujarati", "Gurmukhi", "Hangul", "Hebrew", "Kannada", "Khmer", "Lao", "Latin",
            "Malayalam", "Myanmar", "Oriya", "Sinhala", "Tamil", "Telugu", "Thai", "Tibetan",
        )
    },
    "Han": ("CJK",),
    "Japanese": ("CJK", "HIRAGANA", "KATAKANA"),
}  # fmt: skip

Constraint = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of constraint: the fields it takes, and when an answer meets it."""

    met: Callable[[Constraint, str], bool]
    fields: Mapping[str, Callable[[Any], Problem | None]] = field(default_factory=dict)
    """By name: what is wrong with a value."""


def share_met(constraints: list[Constraint], answer: str) -> float:
    """The share of ``constraints`` that ``answer`` meets; an answer without text meets none."""
    answer = answer.strip()
    if not answer:
        return 0.0
    return sum(KINDS[one["kind"]].met(one, answer) for one in constraints) / len(constraints)


def wrong_constraints(reference: Any) -> Iterator[Problem]:
    """All that is wrong with a row's list of constraints."""
    if not isinstance(reference, list):
        example = '[{"kind": "words_at_most", "n": 20}]'
        yield Problem("the reference is a list of constraints", f"write {example}", ("reference",))
        return
    for index, constraint in enumerate(reference):
        for problem in _wrong(constraint):
            yield problem._replace(key=("reference", index, *problem.key))


def _wrong(constraint: Any) -> Iterator[Problem]:
    if not isinstance(constraint, dict) or "kind" not in constraint:
        yield Problem("a constraint is an object with a 'kind'", f"one of: {', '.join(KINDS)}")
        return
    kind = KINDS.get(constraint["kind"]) if isinstance(constraint["kind"], str) else None
    if kind is None:
        message = f"unknown kind '{constraint['kind']}'"
        yield Problem(message, meant(constraint["kind"], KINDS), ("kind",))
        return
    for name, wrong in kind.fields.items():
        if name not in constraint:
            yield Problem("required field is missing", f"add '{name}'", (name,))
        elif problem := wrong(constraint[name]):
            yield problem._replace(key=(name,))
    for name in constraint.keys() - {"kind"} - kind.fields.keys():
        mend = meant(name, kind.fields) if kind.fields else "remove it"
        yield Problem(f"'{constraint['kind']}' takes no such field", mend, (name,))


def _count(value: Any) -> Problem | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return None if fits else Problem("not a whole number above 0", "give a count")


def _text(value: Any) -> Problem | None:
    fits = isinstance(value, str) and bool(value.strip())
    return None if fits else Problem("not a text, or an empty one", "give the text to look for")


def _script(value: Any) -> Problem | None:
    if isinstance(value, str) and value in SCRIPTS:
        return None
    return Problem(f"unknown script '{value}'", meant(value, SCRIPTS))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip()


def _lines(answer: str) -> list[str]:
    return [line.strip() for line in answer.splitlines() if line.strip()]


def _bullets(answer: str) -> int:
    return sum(_BULLET.match(line) is not None for line in _lines(answer))


def _is_json(answer: str) -> bool:
    fenced = _FENCE.fullmatch(answer)
    try:
        json.loads(fenced[1] if fenced else answer, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return False
    return True


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _mostly(script: str, answer: str) -> bool:
    letters = [sign for sign in unicodedata.normalize("NFKC", answer) if sign.isalpha()]
    own = sum(_name(letter).startswith(SCRIPTS[script]) for letter in letters)
    return bool(letters) and own >= _SHARE_OF_SCRIPT * len(letters)


@lru_cache(maxsize=4096)
def _name(letter: str) -> str:
    return unicodedata.name(letter, "")


KINDS: Mapping[str, Kind] = {
    "words_at_most": Kind(lambda c, answer: len(words(answer)) <= c["n"], {"n": _count}),
    "words_at_least": Kind(lambda c, answer: len(words(answer)) >= c["n"], {"n": _count}),
    "starts_with": Kind(
        lambda c, answer: _folded(answer).startswith(_folded(c["text"])), {"text": _text}
    ),
    "ends_with": Kind(
        lambda c, answer: _folded(answer).endswith(_folded(c["text"])), {"text": _text}
    ),
    "includes": Kind(lambda c, answer: occurrences(c["text"], answer) > 0, {"text": _text}),
    "excludes": Kind(lambda c, answer: occurrences(c["text"], answer) == 0, {"text": _text}),
    "lines": Kind(lambda c, answer: len(_lines(answer)) == c["n"], {"n": _count}),
    "bullets": Kind(lambda c, answer: _bullets(answer) == c["n"], {"n": _count}),
    "upper_case": Kind(lambda _, answer: answer.isupper()),
    "lower_case": Kind(lambda _, answer: answer.islower()),
    "json": Kind(lambda _, answer: _is_json(answer)),
    "repeats": Kind(
        lambda c, answer: occurrences(c["text"], answer) == c["n"], {"text": _text, "n": _count}
    ),
    "language": Kind(lambda c, answer: _mostly(c["script"], answer), {"script": _script}),
}
"""By ``kind``. Texts are compared without case, ``n`` is exact unless the kind says otherwise, and
empty lines do not count."""
