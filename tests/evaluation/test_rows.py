from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qpipe.config import BusinessSuite
from qpipe.errors import ConfigError
from qpipe.evaluation import load_business

GOOD = {
    "id": "a",
    "category": "math",
    "prompt": "1 + 1 =",
    "reference": 2,
    "scorer": "numeric",
    "level": 1,
}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name != key}


@pytest.mark.parametrize(
    ("line", "key", "says"),
    [
        ("{not json", "row", "JSON"),
        ("[1]", "row", "object"),
        (without("reference"), "reference", "missing"),
        (without("prompt"), "row", "either 'prompt' or 'messages'"),
        ({**GOOD, "messages": [{"role": "user", "content": "x"}]}, "row", "either"),
        ({**GOOD, "scorer": "numerc"}, "scorer", "unknown scorer 'numerc'"),
        ({**GOOD, "referense": 1}, "referense", "unknown field"),
        ({**GOOD, "reference": ""}, "row", "empty"),
        ({**GOOD, "reference": "two"}, "row", "number"),
        ({**GOOD, "reference": True}, "row", "number"),
        ({**GOOD, "reference": float("inf")}, "row", "beyond"),
        ({**GOOD, "reference": 10**400}, "row", "beyond"),
        ({**GOOD, "tolerance": float("inf")}, "tolerance", "finite"),
        ({**GOOD, "scorer": "exact", "tolerance": 0.1}, "row", "goes with scorer 'numeric'"),
        ({**GOOD, "scorer": "exact", "reference": "?"}, "row", "no letter and no digit"),
        ({**GOOD, "scorer": "contains", "reference": " "}, "row", "no letter and no digit"),
        ({**GOOD, "scorer": "exact", "reference": "a\nb"}, "row", "several lines"),
        ({**GOOD, "level": 5}, "level", "less than or equal to 4"),
        ({**GOOD, "category": "code"}, "category", "'code' in the file of 'math'"),
        ({**GOOD, "choices": ["a", "b"]}, "row", "choices"),
        ({**GOOD, "scorer": "choice"}, "row", "choices"),
        ({**GOOD, "scorer": "choice", "choices": ["a", "b"]}, "row", "index"),
        ({**GOOD, "scorer": "choice", "choices": ["a", "a"], "reference": 0}, "row", "same"),
        ({**GOOD, "scorer": "regex", "reference": "("}, "row", "regular expression"),
        ({**GOOD, "scorer": "json_fields"}, "row", "object of fields"),
        ({**GOOD, "scorer": "contains", "reference": [1]}, "row", "text or a number"),
        ({**GOOD, "scorer": "regex", "reference": "a*"}, "row", "finds itself in an empty answer"),
        ({**GOOD, "prefix": "def f():"}, "row", "'prefix' goes with scorer 'code_tests'"),
        ({**GOOD, "scorer": "code_tests"}, "row", "Python source"),
        ({**GOOD, "scorer": "code_tests", "reference": "assert f("}, "row", "no Python"),
        ({**GOOD, "scorer": "code_tests", "reference": "f(1) == 2"}, "row", "asserts nothing"),
        ({**GOOD, "scorer": "constraints"}, "reference", "list of constraints"),
        ({**GOOD, "scorer": "constraints", "reference": []}, "row", "empty"),
        (
            {**GOOD, "scorer": "constraints", "reference": [{"kind": "line", "n": 1}]},
            "reference.0.kind",
            "unknown kind 'line'",
        ),
    ],
)
def test_a_fault_names_its_line(tmp_path: Path, line: Any, key: str, says: str) -> None:
    text = line if isinstance(line, str) else json.dumps(line)
    (tmp_path / "math.jsonl").write_text(f"{json.dumps({**GOOD, 'id': 'first'})}\n{text}\n")
    suite = BusinessSuite(kind="business", files={"math": "math.jsonl"})
    with pytest.raises(ConfigError) as caught:
        load_business(tmp_path / "s.yaml", suite, tmp_path)
    (fault,) = caught.value.faults
    assert (fault.file, fault.key) == ("math.jsonl:2", key)
    assert says in fault.message
    assert fault.mend


def test_all_faults_of_all_files_come_together(tmp_path: Path) -> None:
    (tmp_path / "math.jsonl").write_text(f"{json.dumps(GOOD)}\n{{\n{json.dumps(GOOD)}\n")
    (tmp_path / "code.jsonl").write_text(json.dumps({**GOOD, "category": "code"}))
    (tmp_path / "empty.jsonl").write_text("\n")
    files = {"math": "math.jsonl", "code": "code.jsonl", "empty": "empty.jsonl"}
    suite = BusinessSuite(kind="business", files=files)
    with pytest.raises(ConfigError) as caught:
        load_business(tmp_path / "s.yaml", suite, tmp_path)
    assert [(fault.file, fault.key) for fault in caught.value.faults] == [
        ("math.jsonl:2", "row"),
        ("math.jsonl:3", "id"),
        ("code.jsonl:1", "id"),
        ("empty.jsonl", "file"),
    ]
    assert "math.jsonl:1" in caught.value.faults[1].message


def test_suggestion_for_a_misspelt_scorer(tmp_path: Path) -> None:
    (tmp_path / "math.jsonl").write_text(json.dumps({**GOOD, "scorer": "numerc"}))
    suite = BusinessSuite(kind="business", files={"math": "math.jsonl"})
    with pytest.raises(ConfigError, match="did you mean 'numeric'"):
        load_business(tmp_path / "s.yaml", suite, tmp_path)


def test_a_suites_own_scorers_are_known_to_its_rows(tmp_path: Path) -> None:
    (tmp_path / "math.jsonl").write_text(json.dumps({**GOOD, "scorer": "mine", "reference": [1]}))
    body = {"kind": "business", "files": {"math": "math.jsonl"}}
    with pytest.raises(ConfigError, match="unknown scorer 'mine'"):
        load_business(tmp_path / "s.yaml", BusinessSuite(**body), tmp_path)
    suite = BusinessSuite(**body, scorers={"mine": "own.py:judge"})
    (row,) = load_business(tmp_path / "s.yaml", suite, tmp_path)["math"]
    assert row.scorer == "mine"
