"""How an answer becomes a score between 0 and 1: one function a scorer."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from qpipe.evaluation._rows import Row, normalise

__all__ = ["SCORERS", "SCORERS_VERSION", "score"]

SCORERS_VERSION = 1
"""Counts up when a scorer judges differently, so that kept cells are computed again."""

_NUMBER = re.compile(r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_MINUS = str.maketrans("−–", "--")


def score(row: Row, answer: str) -> float:
    """The score of ``answer`` by the row's own scorer; for ``choice`` the text chosen."""
    return SCORERS[row.scorer](row, answer)


def _exact(row: Row, answer: str) -> float:
    lines = answer.strip().splitlines() or [""]
    return float(normalise(lines[0]) == normalise(str(row.reference)))


def _numeric(row: Row, answer: str) -> float:
    found = _NUMBER.search(unicodedata.normalize("NFKC", answer).translate(_MINUS))
    if found is None:
        return 0.0
    value = float(found.group().replace(",", ""))
    # Decimal fractions that are equal on paper may differ in the last bit.
    slack = row.tolerance + 1e-9 * max(1.0, abs(float(row.reference)))
    return float(abs(value - float(row.reference)) <= slack)


def _contains(row: Row, answer: str) -> float:
    wanted = re.escape(normalise(str(row.reference)))
    # Word edges keep "no" out of "know"; scripts without spaces have none to look for.
    pattern = rf"(?<!\w){wanted}(?!\w)" if wanted.isascii() else wanted
    return float(re.search(pattern, normalise(answer)) is not None)


def _choice(row: Row, answer: str) -> float:
    return float(answer == row.target)


def _regex(row: Row, answer: str) -> float:
    return float(re.search(row.reference, answer) is not None)


def _json_fields(row: Row, answer: str) -> float:
    """F1 over the fields of the first JSON object in the answer."""
    wanted = {key: normalise(str(value)) for key, value in row.reference.items()}
    got = {key: normalise(str(value)) for key, value in _first_object(answer).items()}
    right = sum(got.get(key) == value for key, value in wanted.items())
    return 2 * right / (len(wanted) + len(got))


def _first_object(answer: str) -> dict[str, Any]:
    decoder = json.JSONDecoder()
    for start in (found.start() for found in re.finditer(r"\{", answer)):
        try:
            value, _ = decoder.raw_decode(answer, start)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else {}
    return {}


SCORERS: Mapping[str, Callable[[Row, str], float]] = {
    "exact": _exact,
    "numeric": _numeric,
    "contains": _contains,
    "choice": _choice,
    "json_fields": _json_fields,
    "regex": _regex,
}
"""By the name that rows use."""
