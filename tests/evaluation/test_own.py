from __future__ import annotations

from pathlib import Path

import pytest

from qpipe.config import BusinessSuite
from qpipe.errors import ConfigError
from qpipe.evaluation import SCORERS, Row, Scorer, load_scorers, score

LENGTH = """
def judge(row, answer):
    return min(1, len(answer) / row["reference"])
"""


def suite(**scorers: str) -> BusinessSuite:
    return BusinessSuite(kind="business", files={}, scorers={k.replace("_", "-"): v for k, v in scorers.items()})  # fmt: skip


def row() -> Row:
    body = {"id": "r1", "category": "c", "prompt": "p", "level": 1, "reference": 4}
    known = {**SCORERS, "length": Scorer(lambda _: (), lambda *_: 0.0)}
    return Row.model_validate({**body, "scorer": "length"}, context={"scorers": known})


def test_a_users_function_judges(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(LENGTH)
    own = load_scorers(tmp_path / "s.yaml", suite(length="own.py:judge"), tmp_path)
    assert score(row(), "ab", own.scorers) == 0.5
    assert score(row(), "abcdef", own.scorers) == 1
    assert own.definitions["length"]["function"] == "judge"


def test_a_changed_file_is_another_definition(tmp_path: Path) -> None:
    path, settings = tmp_path / "own.py", suite(length="own.py:judge")
    path.write_text(LENGTH)
    first = load_scorers(tmp_path / "s.yaml", settings, tmp_path)
    # Of the same size within the same second, which a bytecode cache would not see.
    path.write_text(LENGTH.replace("min(1", "min(0"))
    second = load_scorers(tmp_path / "s.yaml", settings, tmp_path)
    assert first.definitions != second.definitions
    assert (score(row(), "ab", first.scorers), score(row(), "ab", second.scorers)) == (0.5, 0)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("source", "place", "says"),
    [
        (None, "own.py:judge", "FileNotFoundError"),
        ("x = 1", "own.py:judge", "there is no function 'judge'"),
        ("judge = 1", "own.py:judge", "there is no function 'judge'"),
        ("def judge(row): return 1", "own.py:judge", "too many positional arguments"),
        ("def judge(", "own.py:judge", "SyntaxError"),
        ("1 / 0", "own.py:judge", "ZeroDivisionError"),
    ],
)
def test_a_function_that_cannot_be_had(
    tmp_path: Path, source: str | None, place: str, says: str
) -> None:
    if source is not None:
        (tmp_path / "own.py").write_text(source)
    with pytest.raises(ConfigError) as caught:
        load_scorers(tmp_path / "s.yaml", suite(length=place, again=place), tmp_path)
    assert [(fault.file, fault.key) for fault in caught.value.faults] == [
        ("s.yaml", "scorers.length"),
        ("s.yaml", "scorers.again"),
    ]
    assert says in caught.value.faults[0].message
    assert caught.value.faults[0].mend == "write `def judge(row: dict, answer: str) -> float` in own.py"  # fmt: skip


def test_a_built_in_name_is_taken(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(LENGTH)
    with pytest.raises(ConfigError, match="'exact' is a built-in scorer"):
        load_scorers(tmp_path / "s.yaml", suite(exact="own.py:judge"), tmp_path)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("1 / 0", "failed on row 'r1': ZeroDivisionError: division by zero"),
        ("row['missing']", "failed on row 'r1': KeyError: 'missing'"),
        ("1.5", "gave 1.5 on row 'r1'"),
        ("-0.1", "gave -0.1 on row 'r1'"),
        ("float('nan')", "gave nan on row 'r1'"),
        ("None", "gave None on row 'r1'"),
        ("'1'", "gave '1' on row 'r1'"),
    ],
)
def test_a_failure_is_an_error_and_no_zero(tmp_path: Path, body: str, says: str) -> None:
    (tmp_path / "own.py").write_text(f"def judge(row, answer): return {body}")
    own = load_scorers(tmp_path / "s.yaml", suite(length="own.py:judge"), tmp_path)
    with pytest.raises(ConfigError) as caught:
        score(row(), "a", own.scorers)
    (fault,) = caught.value.faults
    assert (fault.file, fault.key) == ("own.py", "judge")
    assert says in fault.message


@pytest.mark.parametrize("place", ["own.py", "own:judge", "own.py:a.b", ":judge", "own.py:1x"])
def test_a_place_has_a_file_and_a_function(place: str) -> None:
    with pytest.raises(ValueError, match=r"FILE\.py:FUNCTION"):
        suite(length=place)
