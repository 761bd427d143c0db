"""How an answer becomes a score between 0 and 1: one entry of ``SCORERS`` a scorer."""

from __future__ import annotations

import ast
import json
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from qpipe.evaluation._constraints import share_met, wrong_constraints
from qpipe.evaluation._model_code import code_refused, may_run_code
from qpipe.evaluation._problems import Problem
from qpipe.evaluation._sandbox import passes
from qpipe.evaluation._text import normalise, occurrences

if TYPE_CHECKING:
    from qpipe.evaluation._rows import Row

__all__ = [
    "SCORERS",
    "FieldCount",
    "Scorer",
    "field_counts",
    "field_summary",
    "score",
]

_NUMBER = re.compile(r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_MINUS = str.maketrans("−–", "--")
_LARGEST = 1e15  # whole numbers beyond are not told apart as floats
_FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+#.-]*)[^`\n]*(?:\n|\Z)", re.MULTILINE)
_PYTHON = ("python", "python3", "py", "py3")


@dataclass(frozen=True)
class Scorer:
    """One way to judge: what is wrong with a row that asks for it, and an answer's score."""

    wrong: Callable[[Row], Iterable[Problem]]
    """What is wrong with a row's reference."""
    score: Callable[[Row, str], float]
    """From 0 to 1."""
    needs: tuple[str, ...] = ()
    """Fields that a row of this scorer has to have, and no other row may."""
    takes: tuple[str, ...] = ()
    """Fields that a row of this scorer may have, and no other row."""
    runs_code: bool = False
    """Runs what the model wrote: only in the sandbox, and only where the user allows it."""


def score(row: Row, answer: str, scorers: Mapping[str, Scorer] | None = None) -> float:
    """The score of ``answer`` by the row's own scorer; for ``choice`` the text chosen.

    Args:
        row: The question.
        answer: The answer's text.
        scorers: What the row's ``scorer`` is looked up in; ``SCORERS`` when absent.

    Raises:
        ConfigError: a user's own scorer fails or gives no number from 0 to 1.
        EnvError: the row's tests cannot be run, or running code is not allowed.
    """
    return (SCORERS if scorers is None else scorers)[row.scorer].score(row, answer)


class FieldCount(NamedTuple):
    """One field of a JSON answer."""

    wanted: bool
    """The reference has it."""
    present: bool
    """The answer has it."""
    right: bool
    """Both have it, with equal values."""


def field_counts(row: Row, answer: str) -> dict[str, FieldCount]:
    """By field of the reference or of the first JSON object in ``answer``."""
    wanted, got = row.reference, _first_object(answer)
    return {
        key: FieldCount(
            key in wanted, key in got, key in wanted and key in got and _same(wanted[key], got[key])
        )
        for key in [*wanted, *(key for key in got if key not in wanted)]
    }


def _same(wanted: Any, got: Any) -> bool:
    """Whether two values of a field are equal: 12 and 12.0 are, ``null`` and "none" are not."""
    if any(value is None or isinstance(value, bool) for value in (wanted, got)):
        return wanted is got
    if isinstance(wanted, int | float) and isinstance(got, int | float):
        return wanted == got
    return normalise(str(wanted)) == normalise(str(got))


def field_summary(counts: Iterable[Mapping[str, FieldCount]]) -> dict[str, dict[str, float | None]]:
    """Per field over many answers: ``wanted``, ``precision``, ``recall`` and ``f1``.

    A share of nothing is ``None``: precision of a field that no answer has, recall and F1 of one
    that no reference has.
    """
    totals: dict[str, list[int]] = {}
    for one in counts:
        for key, count in one.items():
            total = totals.setdefault(key, [0, 0, 0])
            totals[key] = [a + b for a, b in zip(total, count, strict=True)]
    return {
        key: {
            "wanted": wanted,
            "precision": right / present if present else None,
            "recall": right / wanted if wanted else None,
            "f1": 2 * right / (wanted + present) if wanted else None,
        }
        for key, (wanted, present, right) in totals.items()
    }


def _wrong_text(row: Row) -> Iterator[Problem]:
    if not isinstance(row.reference, str | int | float):
        yield Problem("the reference is a text or a number")
    # An answer is compared without its edge punctuation.
    elif not normalise(str(row.reference)):
        yield Problem("the reference has no letter and no digit")


def _wrong_line(row: Row) -> Iterator[Problem]:
    if len(str(row.reference).strip().splitlines()) > 1:
        yield Problem("the reference has several lines; 'exact' looks at an answer's first")
    else:
        yield from _wrong_text(row)


def _exact(row: Row, answer: str) -> float:
    lines = answer.strip().splitlines() or [""]
    return float(normalise(lines[0]) == normalise(str(row.reference)))


def _wrong_number(row: Row) -> Iterator[Problem]:
    if not isinstance(row.reference, int | float) or isinstance(row.reference, bool):
        yield Problem("the reference is a number")
    elif not abs(row.reference) <= _LARGEST:
        yield Problem(f"the reference is beyond {_LARGEST:g}")


def _numeric(row: Row, answer: str) -> float:
    found = _NUMBER.search(unicodedata.normalize("NFKC", answer).translate(_MINUS))
    if found is None:
        return 0.0
    value = float(found.group().replace(",", ""))
    # Decimal fractions that are equal on paper may differ in the last bit.
    slack = (row.tolerance or 0.0) + 1e-9 * max(1.0, abs(float(row.reference)))
    return float(abs(value - float(row.reference)) <= slack)


def _contains(row: Row, answer: str) -> float:
    return float(occurrences(normalise(str(row.reference)), answer) > 0)


def _wrong_choice(row: Row) -> Iterator[Problem]:
    choices = row.choices or []
    if len(set(choices)) < len(choices):
        yield Problem("two choices are the same")
        return
    if isinstance(row.reference, int) and not isinstance(row.reference, bool):
        fits = 0 <= row.reference < len(choices)
    else:
        fits = row.reference in choices
    if not fits:
        yield Problem("the reference is an index into 'choices' or one of them")


def _choice(row: Row, answer: str) -> float:
    return float(answer == row.target)


def _wrong_fields(row: Row) -> Iterator[Problem]:
    if not isinstance(row.reference, dict):
        yield Problem("the reference is an object of fields")


def _json_fields(row: Row, answer: str) -> float:
    """F1 over the fields of the first JSON object in the answer."""
    counts = field_counts(row, answer).values()
    right = sum(one.right for one in counts)
    return 2 * right / sum(one.wanted + one.present for one in counts)


def _first_object(answer: str) -> dict[str, Any]:
    decoder = json.JSONDecoder()
    for start in (found.start() for found in re.finditer(r"\{", answer)):
        try:
            value, _ = decoder.raw_decode(answer, start)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else {}
    return {}


def _wrong_pattern(row: Row) -> Iterator[Problem]:
    try:
        pattern = re.compile(row.reference)
    except (re.error, TypeError) as error:
        yield Problem(f"the reference is no regular expression: {error}")
        return
    if pattern.search(""):
        yield Problem("the pattern finds itself in an empty answer", "write one that needs a sign")


def _regex(row: Row, answer: str) -> float:
    return float(re.search(row.reference, answer) is not None)


def _wrong_tests(row: Row) -> Iterator[Problem]:
    if not isinstance(row.reference, str):
        yield Problem("the reference is Python source with asserts")
        return
    try:
        tree = ast.parse(row.reference)
    except (SyntaxError, ValueError) as error:
        yield Problem(f"the reference is no Python: {error}")
        return
    if not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        yield Problem("the reference asserts nothing", "write a line like `assert f(2) == 4`")


def _code_tests(row: Row, answer: str) -> float:
    if not may_run_code():
        raise code_refused(row.id)
    return float(passes(_code(row, answer), row.reference))


def _code(row: Row, answer: str) -> str:
    """The first fenced block of Python, else of any kind; else the text, after ``prefix``."""
    blocks = list(_blocks(answer))
    if python := [code for label, code in blocks if label in _PYTHON]:
        return python[0]
    fence = _FENCE.search(answer)
    text = _after(row.prefix or "", answer[: fence.start()] if fence else answer)
    # A prompt may end in an open fence: then the first one of the answer closes it.
    if not blocks or _is_code(text):
        return text
    return next((code for label, code in blocks if not label), blocks[0][1])


def _blocks(answer: str) -> Iterator[tuple[str, str]]:
    """Label and code of every fenced block.

    One that the answer's end cuts off counts if nothing else can be meant: it is labelled Python,
    or the answer starts with it.
    """
    fences = list(_FENCE.finditer(answer))
    label, start = None, 0
    for fence in fences:
        if label is not None:
            yield label, textwrap.dedent(answer[start : fence.start()])
        closes = label is not None and not fence[1]
        label, start = None if closes else fence[1].lower(), fence.end()
    if label is not None:
        first = len(fences) == 1 and not answer[: fences[0].start()].strip()
        if label in _PYTHON or (first and not label):
            yield label, textwrap.dedent(answer[start:])


def _after(prefix: str, text: str) -> str:
    """``text`` as it goes on from ``prefix``, which it may say again."""
    again = prefix.strip() and text.lstrip().startswith(prefix.strip())
    return text.lstrip() if again else prefix + text


def _is_code(text: str) -> bool:
    """Whether ``text`` is Python that names something; single words of prose are Python too."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign)
    return any(isinstance(node, names) for node in body)


SCORERS: Mapping[str, Scorer] = {
    "exact": Scorer(_wrong_line, _exact),
    "numeric": Scorer(_wrong_number, _numeric, takes=("tolerance",)),
    "contains": Scorer(_wrong_text, _contains),
    "choice": Scorer(_wrong_choice, _choice, needs=("choices",)),
    "json_fields": Scorer(_wrong_fields, _json_fields),
    "regex": Scorer(_wrong_pattern, _regex),
    "constraints": Scorer(
        lambda row: wrong_constraints(row.reference),
        lambda row, answer: share_met(row.reference, answer),
    ),
    "code_tests": Scorer(_wrong_tests, _code_tests, takes=("prefix",), runs_code=True),
}
"""By the name that rows use; a suite's own scorers come beside them."""
