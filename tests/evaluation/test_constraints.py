from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from qpipe.evaluation import Row, score
from qpipe.evaluation._constraints import KINDS, SCRIPTS


def row(*constraints: Any) -> Row:
    base = {"id": "x", "category": "c", "prompt": "p", "level": 1, "scorer": "constraints"}
    return Row.model_validate({**base, "reference": list(constraints)})


@pytest.mark.parametrize(
    ("constraint", "meets", "fails"),
    [
        ({"kind": "words_at_most", "n": 3}, ["one two three", "don't go - now", "三个字", "हिन्दी में है"], ["a b c d", "四个字吧"]),
        ({"kind": "words_at_least", "n": 3}, ["one two three", "我爱你"], ["one two", "one - two ..."]),
        ({"kind": "starts_with", "text": "Dear"}, [" dear team", "DEAR"], ["My dear"]),
        ({"kind": "ends_with", "text": "Bye!"}, ["So, bye!\n"], ["Bye! Ana"]),
        ({"kind": "includes", "text": "no"}, ["No, thanks"], ["I know"]),
        ({"kind": "includes", "text": "中文"}, ["这是中文。"], ["这是英文。"]),
        ({"kind": "excludes", "text": "no"}, ["I know"], ["oh no"]),
        ({"kind": "lines", "n": 2}, ["a\n\nb\n"], ["a", "a\nb\nc"]),
        ({"kind": "bullets", "n": 2}, ["Two:\n- a\n* b", "• a\n• b"], ["- a", "-a\n-b", "a - b"]),
        ({"kind": "upper_case"}, ["LOUD, 3!"], ["Loud", "123"]),
        ({"kind": "lower_case"}, ["quiet, 3!"], ["Quiet", "123"]),
        ({"kind": "json"}, ['{"a": 1}', "```json\n[1]\n```", "3"], ["{a: 1}", 'So: {"a": 1}', "NaN", "[" * 100_000]),
        ({"kind": "repeats", "text": "ho", "n": 3}, ["Ho ho, ho!"], ["ho ho", "ho ho ho ho", "hoho ho"]),
        ({"kind": "language", "script": "Cyrillic"}, ["Привет, мир 3"], ["hello", "привет hello", "3"]),
        ({"kind": "language", "script": "Han"}, ["你好，世界"], ["こんにちは"]),
        ({"kind": "language", "script": "Japanese"}, ["日本語です"], ["你好 hello"]),
        ({"kind": "language", "script": "Devanagari"}, ["यह हिन्दी है"], ["this is"]),
    ],
)  # fmt: skip
def test_a_constraint(constraint: dict[str, Any], meets: list[str], fails: list[str]) -> None:
    for answer in meets:
        assert score(row(constraint), answer) == 1, answer
    for answer in [*fails, "", " \n"]:
        assert score(row(constraint), answer) == 0, answer


def test_every_kind_is_tested() -> None:
    marks = test_a_constraint.pytestmark  # type: ignore[attr-defined]
    assert {case[0]["kind"] for case in marks[0].args[1]} == set(KINDS)


def test_the_score_is_the_share_met() -> None:
    question = row(
        {"kind": "lines", "n": 1}, {"kind": "lower_case"}, {"kind": "includes", "text": "x"}
    )
    assert score(question, "X marks it") == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("constraint", "key", "message", "mend"),
    [
        ({"kind": "word_at_most", "n": 1}, "kind", "unknown kind 'word_at_most'", "did you mean 'words_at_most'?"),
        ({"kind": 3}, "kind", "unknown kind '3'", "one of: words_at_most"),
        ({"n": 3}, "", "an object with a 'kind'", "one of: "),
        ("lines", "", "an object with a 'kind'", "one of: "),
        ({"kind": "lines"}, "n", "missing", "add 'n'"),
        ({"kind": "lines", "n": 0}, "n", "above 0", "count"),
        ({"kind": "lines", "n": True}, "n", "above 0", "count"),
        ({"kind": "includes", "text": " "}, "text", "empty", "text"),
        ({"kind": "includes", "text": "a", "txt": "b"}, "txt", "takes no such field", "did you mean 'text'?"),
        ({"kind": "json", "n": 1}, "n", "takes no such field", "remove"),
        ({"kind": "language", "script": "Cyrilic"}, "script", "unknown script", "did you mean 'Cyrillic'?"),
        ({"kind": "language", "script": ["Han"]}, "script", "unknown script", "did you mean 'Han'?"),
    ],
)  # fmt: skip
def test_a_fault(constraint: Any, key: str, message: str, mend: str) -> None:
    with pytest.raises(ValidationError) as caught:
        row({"kind": "json"}, constraint)
    (error,) = caught.value.errors()
    assert error["loc"] == ("reference", 1, *([key] if key else []))
    assert message in error["msg"]
    assert mend in error["ctx"]["mend"]


def test_all_faults_of_a_row_come_together() -> None:
    with pytest.raises(ValidationError) as caught:
        row({"kind": "lins"}, {"kind": "repeats"})
    assert [error["loc"][1:] for error in caught.value.errors()] == [
        (0, "kind"), (1, "text"), (1, "n")
    ]  # fmt: skip


values = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers())
anything = st.dictionaries(st.sampled_from(["kind", "n", "text", "script", "x"]), values | st.sampled_from(sorted(KINDS)))  # fmt: skip


@given(constraints=st.lists(values | anything, min_size=1, max_size=3), answer=st.text())
def test_any_reference_is_a_fault_or_gives_a_share(constraints: list[Any], answer: str) -> None:
    try:
        question = row(*constraints)
    except ValidationError:
        return
    assert 0 <= score(question, answer) <= 1


good = st.sampled_from(sorted(KINDS)).map(
    lambda kind: {
        "kind": kind,
        **{
            name: {"n": 2, "text": "a", "script": sorted(SCRIPTS)[0]}[name]
            for name in KINDS[kind].fields
        },
    }
)


@given(constraints=st.lists(good, min_size=1, max_size=5), answer=st.text())
def test_any_answer_gives_a_share(constraints: list[Any], answer: str) -> None:
    assert 0 <= score(row(*constraints), answer) <= 1
