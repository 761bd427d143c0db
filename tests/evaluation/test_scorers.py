from __future__ import annotations

import itertools
import json
import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from qpipe.evaluation import (
    SCORERS,
    FieldCount,
    Row,
    field_counts,
    field_summary,
    normalise,
    score,
)
from qpipe.evaluation._scorers import _code
from qpipe.evaluation._text import occurrences


def row(scorer: str, reference: Any, **more: Any) -> Row:
    base = {"id": "x", "category": "c", "prompt": "p", "level": 1}
    return Row.model_validate({**base, "scorer": scorer, "reference": reference, **more})


@pytest.mark.parametrize(
    ("scorer", "reference", "answer", "expected"),
    [
        ("exact", "Oslo", " oslo. \nmore", 1),
        ("exact", "Oslo", "in Oslo", 0),
        ("exact", 5, "5", 1),
        ("exact", "好评", "好评。", 1),
        ("exact", "x", "", 0),
        ("numeric", 5, "It is 5 or 6", 1),
        ("numeric", 5, "6 or 5", 0),
        ("numeric", 1234.5, "1,234.50 EUR", 1),
        ("numeric", -3, "-3", 1),
        ("numeric", -3, "= −3", 1),
        ("numeric", 3, "−3", 0),
        ("numeric", 1_200_000, "1.2e6", 1),
        ("numeric", 7, "７", 1),
        ("numeric", 7, "seven", 0),
        ("contains", "No", "I know", 0),
        ("contains", "No", "No, it is not", 1),
        ("contains", "小红", "答案是小红。", 1),
        ("contains", "a@b.org", "Write to A@B.org!", 1),
        ("regex", r"a\s*\+\s*b", "return a+b", 1),
        ("regex", r"a\s*\+\s*b", "return a-b", 0),
        ("json_fields", {"a": 1, "b": "x"}, 'So: {"a": "1", "b": "X"} done', 1),
        ("json_fields", {"a": 1, "b": "x"}, '{"a": 1}', 2 / 3),
        ("json_fields", {"a": 1}, '{"a": 1, "b": 2, "c": 3}', 0.5),
        ("json_fields", {"a": 1}, "{broken {", 0),
        ("json_fields", {"a": 1}, "[1]", 0),
    ],
)
def test_score(scorer: str, reference: Any, answer: str, expected: float) -> None:
    assert score(row(scorer, reference), answer) == pytest.approx(expected)


ALONE = [
    (
        5,
        [
            "5",
            "5.",
            "5, 6",
            "It is 5.",
            "(5)",
            "5%",
            "$5",
            "答案是5。",
            "5年",
            "有5个",
            "so...5",
            "5 000",
        ],
    ),
    (5, ["５", "5.\n6", "0.5 or 5"]),
    (0.5, ["0.5", "0.5.", "是0.5米"]),
    ("1,000", ["1,000", "1,000.", "1,000 EUR"]),
    ("5 EUR", ["5 EUR.", "for 5 EUR"]),
    ("año", ["un año", "¡Año!", "AÑO.", "答案是año"]),
    ("Córdoba", ["en Córdoba.", "Co\u0301rdoba"]),
    ("дом", ["Дом.", "мой дом"]),
    ("किताब", ["यह किताब है", "किताब।"]),
    ("Oslo", ["答案是Oslo。", "オスロ(Oslo)", "Osloです"]),
    ("小红", ["答案是小红。", "小红的"]),
    ("กรุงเทพ", ["อยู่กรุงเทพครับ"]),
    ("とうきょう", ["これはとうきょうです"]),
    ("서울", ["답은 서울입니다", "서울은"]),
    ("C++", ["C++", "C++17"]),
]
WITHIN = [
    (
        5,
        [
            "0.5",
            "5.5",
            ".5",
            "is .5",
            "$.5",
            "5,000",
            "1,5",
            "15",
            "50",
            "5e3",
            "5万",
            "a5",
            "-0.5",
        ],
    ),
    (1, ["1,000", "0.1", "1.5", "1，000"]),
    (0.5, ["10.5", "0.55", "3,0.5"]),
    ("1,000", ["1,000,000", "11,000", "1,000.5"]),
    ("5 EUR", ["0.5 EUR", "15 EUR", "5 EURO"]),
    ("año", ["paño", "años", "an\u0303os"]),
    ("Córdoba", ["Córdobas"]),
    ("дом", ["домик", "ведом"]),
    ("क", ["कि", "किताब"]),
    ("no", ["know", "noé", "éno", "no_one"]),
]


@pytest.mark.parametrize(
    ("wanted", "texts", "expected"), [(*one, 1) for one in ALONE] + [(*one, 0) for one in WITHIN]
)
def test_a_word_or_number_has_edges(wanted: Any, texts: list[str], expected: int) -> None:
    includes = row("constraints", [{"kind": "includes", "text": str(wanted)}])
    excludes = row("constraints", [{"kind": "excludes", "text": str(wanted)}])
    repeats = row("constraints", [{"kind": "repeats", "text": str(wanted), "n": 2}])
    for text in texts:
        assert score(row("contains", wanted), text) == expected, text
        assert score(includes, text) == expected, text
        assert score(excludes, text) == 1 - expected, text
        assert score(repeats, f"{text} | {text}") == expected, text


@given(text=st.text("5.,a ñ是"), wanted=st.sampled_from(["5", "a", "ñ", ",", ".", "是"]))
def test_a_sign_without_edges_is_found_wherever_it_stands(text: str, wanted: str) -> None:
    found = occurrences(wanted, text)
    assert found == text.count(wanted) if wanted in ",.是" else found <= text.count(wanted)


def test_tolerance_is_inclusive() -> None:
    assert score(row("numeric", 1.0, tolerance=0.1), "1.1") == 1
    assert score(row("numeric", 1.0, tolerance=0.1), "1.2") == 0


def test_tolerance_is_zero_when_absent() -> None:
    for question in (row("numeric", 1.0), row("numeric", 1.0, tolerance=None)):
        assert (score(question, "1.0"), score(question, "1.001")) == (1, 0)


@pytest.mark.parametrize("tolerance", [0, 0.1])
@pytest.mark.parametrize("name", sorted(SCORERS.keys() - {"numeric"}))
def test_only_numeric_takes_a_tolerance(name: str, tolerance: float) -> None:
    with pytest.raises(ValidationError, match="'tolerance' goes with scorer 'numeric'"):
        row(name, "a", tolerance=tolerance)


@pytest.mark.parametrize("reference", [1, "no"])
def test_choice_takes_index_or_text(reference: int | str) -> None:
    question = row("choice", reference, choices=["yes", "no"])
    assert score(question, "no") == 1
    assert score(question, "yes") == 0


references = st.text(min_size=1).filter(
    lambda text: bool(normalise(text)) and len(text.strip().splitlines()) == 1
)


@given(answer=st.text(), reference=references)
def test_text_scores_are_zero_or_one(answer: str, reference: str) -> None:
    for scorer in ("exact", "contains"):
        assert score(row(scorer, reference), answer) in (0, 1)


@given(reference=references)
def test_a_text_finds_itself(reference: str) -> None:
    for scorer in ("exact", "contains"):
        question = row(scorer, reference)
        assert (score(question, reference), score(question, "")) == (1, 0)


@given(answer=st.text())
def test_scores_of_any_answer_lie_between_zero_and_one(answer: str) -> None:
    assert 0 <= score(row("json_fields", {"a": 1}), answer) <= 1
    assert score(row("numeric", 3), answer) in (0, 1)


@given(value=st.floats(-1e9, 1e9, allow_nan=False))
def test_a_number_finds_itself(value: float) -> None:
    assert score(row("numeric", value), f"= {value:.6f}") == float(
        abs(round(value, 6) - value) <= 1e-9 * max(1, abs(value))
    )


@given(fields=st.dictionaries(st.text(), st.integers() | st.text(), min_size=1))
def test_json_finds_itself(fields: dict[str, Any]) -> None:
    assert score(row("json_fields", fields), json.dumps(fields)) == 1


@given(text=st.text())
def test_normalise_is_idempotent_on_ascii_edges(text: str) -> None:
    assert normalise(f"  {text}. ") == normalise(text)


WANTED = {"city": "Oslo", "count": 3, "date": "3 July"}


def test_fields_are_counted() -> None:
    counts = field_counts(
        row("json_fields", WANTED), 'It is {"city": "oslo", "count": 4, "who": 1}'
    )
    assert counts == {
        "city": FieldCount(wanted=True, present=True, right=True),
        "count": FieldCount(wanted=True, present=True, right=False),
        "date": FieldCount(wanted=True, present=False, right=False),
        "who": FieldCount(wanted=False, present=True, right=False),
    }
    assert not any(one.present for one in field_counts(row("json_fields", WANTED), "Oslo").values())


VALUES = [
    [12, 12.0, 1.2e1],
    [0.5, 5e-1],
    [0, 0.0, -0.0],
    [1],
    [None],
    [True],
    [False],
    ["none", "None."],
    ["true", "TRUE"],
    ["false"],
    ["Oslo", " oslo "],
]


def test_only_equal_values_of_a_field_are_the_same() -> None:
    for wanted in VALUES:
        for got in VALUES:
            for a, b in itertools.product(wanted, got):
                scored = score(row("json_fields", {"a": a}), json.dumps({"a": b}))
                assert scored == float(wanted is got), (a, b)


@pytest.mark.parametrize(("number", "text"), [(12, "12"), (1.5, "1.5"), (-3, "-3")])
def test_a_number_may_be_written_as_a_text(number: float, text: str) -> None:
    assert score(row("json_fields", {"a": number}), json.dumps({"a": text})) == 1
    assert score(row("json_fields", {"a": text}), json.dumps({"a": number})) == 1


def test_precision_and_recall_a_field() -> None:
    question = row("json_fields", WANTED)
    answers = [
        '{"city": "Oslo", "count": 3}',
        '{"city": "Rome", "who": 1}',
        '{"city": "Oslo"}',
        "-",
    ]
    summary = field_summary(field_counts(question, answer) for answer in answers)
    assert summary == {
        "city": {"wanted": 4, "precision": 2 / 3, "recall": 0.5, "f1": pytest.approx(4 / 7)},
        "count": {"wanted": 4, "precision": 1, "recall": 0.25, "f1": pytest.approx(0.4)},
        "date": {"wanted": 4, "precision": None, "recall": 0, "f1": 0},
        "who": {"wanted": 0, "precision": 0, "recall": None, "f1": None},
    }


answers = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)).map(json.dumps) | st.text()


@given(
    wanted=st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), min_size=1), answer=answers
)
def test_the_score_is_the_f1_of_the_counts(wanted: dict[str, Any], answer: str) -> None:
    question = row("json_fields", wanted)
    counts = list(field_counts(question, answer).values())
    right = sum(one.right for one in counts)
    size = sum(one.wanted for one in counts) + sum(one.present for one in counts)
    assert score(question, answer) == pytest.approx(2 * right / size)
    assert all(one.wanted and one.present for one in counts if one.right)


PREFIX = "def f(n):\n"
BODY = "    if n:\n        return n\n    return 1\n"
WHOLE = PREFIX + BODY


@given(code=st.text(st.characters(exclude_characters="`\r")), around=st.text("ab \n"))
def test_code_is_taken_out_of_its_fence(code: str, around: str) -> None:
    question = row("code_tests", "assert f", prefix=PREFIX)
    for label in ("python", "py", "python3", "Python", "PY"):
        fenced = f"{around}\n```{label}\n{code}\n```\n{around}"
        assert _code(question, fenced) == textwrap.dedent(f"{code}\n")
    assert _code(question, code) == f"{PREFIX}{code}"


@pytest.mark.parametrize("prefix", [None, PREFIX])
@pytest.mark.parametrize("label", ["python", "Python", "PYTHON3", "py", "Py", "", "text", "c++"])
@pytest.mark.parametrize(
    "before", ["", "Sure:\n", "Sure\n", "It is short.\n\n", "\n\n", "1. So:\n"]
)
@pytest.mark.parametrize("indent", ["", "   ", "\t"])
def test_a_closed_fence_is_found(prefix: str | None, label: str, before: str, indent: str) -> None:
    block = textwrap.indent(f"```{label}\n{WHOLE}```\nThat is all.", indent)
    question = row("code_tests", "assert f", prefix=prefix)
    assert _code(question, before + block) == WHOLE


@pytest.mark.parametrize(
    "answer",
    [
        f"Install it:\n```bash\npip install x\n```\nThen:\n```\n{WHOLE}```",
        f"```\n>>> f(1)\n```\n```Python\n{WHOLE}```\nor\n```python\npass\n```",
        f"```python\n{WHOLE}```text\n1\n```",
        f"```python\n{WHOLE}",
        f"So:\n```py\n{WHOLE}",
        f"```\n{WHOLE}",
    ],
)
def test_the_block_of_python_is_taken(answer: str) -> None:
    assert _code(row("code_tests", "assert f"), answer) == WHOLE


@pytest.mark.parametrize(
    "after",
    ["", "```", "```\nIt is short.", "```\nUse:\n```\nf(2)\n```", "```\nIt is:\n```text\n2\n```"],
)
@pytest.mark.parametrize("answer", [BODY, WHOLE, f"\n{WHOLE}", f" {WHOLE}"])
def test_an_answer_goes_on_from_the_prefix_or_says_it_again(answer: str, after: str) -> None:
    assert _code(row("code_tests", "assert f", prefix=PREFIX), answer + after) == WHOLE


@pytest.mark.parametrize("name", SCORERS)
def test_one_entry_makes_a_scorer(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        row(name, "")
    assert "scorer" not in [error["loc"] for error in caught.value.errors()]
