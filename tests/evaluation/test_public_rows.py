"""The checked-in readers of public sets, and the suites that name them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qpipe.config import PublicSuite, load_yaml
from qpipe.evaluation import load_readers
from tests.workspace_fixture import REPO

SUITES = sorted((REPO / "evalsets" / "public").glob("*.yaml"))


def suite_of(path: Path) -> PublicSuite:
    return load_yaml(path, REPO, PublicSuite)


def read(task: str, path: Path, name: str = "") -> list[dict[str, Any]]:
    file = REPO / "evalsets" / "public" / "public.yaml"
    return load_readers(file, suite_of(file), REPO)[task](path, name)


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_checked_in_suites_load(path: Path) -> None:
    suite = suite_of(path)
    assert load_readers(path, suite, REPO).keys() == {
        name for name, task in suite.tasks.items() if task.rows
    }


def test_the_default_suite_has_every_category() -> None:
    categories = {task.category for task in suite_of(SUITES[0].with_name("public.yaml")).tasks.values()}  # fmt: skip
    assert categories == {
        "reasoning",
        "code",
        "math",
        "low-resource",
        "long-context",
        "instruction-following",
        "knowledge",
        "language-modelling",
    }


def test_arc(tmp_path: Path) -> None:
    row = {"query": "Question: Ice?", "choices": ["hot", "cold", "wet"], "gold": 1}
    assert read("arc_easy", lines(tmp_path / "arc.jsonl", row)) == [
        {
            "question": "Ice?",
            "choices": {"text": ["hot", "cold", "wet"], "label": ["A", "B", "C"]},
            "answerKey": "B",
        }
    ]


def test_mmlu_takes_its_subject(tmp_path: Path) -> None:
    choices = {f"choice{index}": str(index) for index in range(4)}
    rows = [
        {"subject": subject, "question": f"{subject}?", **choices, "answer": 2}
        for subject in ("law", "anatomy")
    ]
    assert read("mmlu", lines(tmp_path / "mmlu.jsonl", *rows), "anatomy") == [
        {
            "question": "anatomy?",
            "subject": "anatomy",
            "choices": ["0", "1", "2", "3"],
            "answer": 2,
        }
    ]


def test_mgsm_has_questions_and_solved_examples(tmp_path: Path) -> None:
    questions = tmp_path / "mgsm_sw.tsv"
    questions.write_text('Ana "bata" 3?\t3\nNgapi?\t2,125\n', encoding="utf-8")
    assert read("mgsm_direct_sw", questions, "sw") == [
        {"question": 'Ana "bata" 3?', "answer": None, "answer_number": 3},
        {"question": "Ngapi?", "answer": None, "answer_number": 2125},
    ]
    solved = [
        {"lang": "th", "id": "1", "q": "โจทย์: 5 + 6", "a": "5 + 6 = 11 คำตอบคือ 11"},
        {"lang": "sw", "id": "1", "q": "Swali: 5 + 6", "a": "5 + 6 = 11. Jibu ni 11."},
    ]
    assert read("mgsm_direct_sw", lines(tmp_path / "solved.jsonl", *solved), "sw") == [
        {"question": "Swali: 5 + 6", "answer": "5 + 6 = 11. Jibu ni 11.", "answer_number": 11}
    ]


def test_wikitext_is_split_at_titles(tmp_path: Path) -> None:
    text = (
        " \n = One = \n \n Words , and = signs = in a line . \n = = Part = = \n \n More . \n"
        " = = = Deep = = = \n \n Last . \n \n = Two ( song ) = \n \n End . \n"
    )
    path = tmp_path / "wiki.raw"
    path.write_text(text, encoding="utf-8")
    one, two = (row["page"] for row in read("wikitext", path))
    assert one.startswith(" = One = \n") and one.endswith(" Last . \n ")
    assert two == " = Two ( song ) = \n \n End . \n"
