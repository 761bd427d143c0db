"""Readers of public sets in the forms in which their authors publish them.

A suite's task names one under `rows`. It takes a file and the `dataset_name` of lm-eval's task, and
gives rows with the columns that the set has on the hub, which lm-eval's task reads.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def arc(path: Path, name: str) -> Iterator[Row]:
    """JSON lines of {query, choices, gold}; a query begins with "Question: ", as lm-eval's do."""
    for row in _lines(path):
        labels = [chr(ord("A") + index) for index in range(len(row["choices"]))]
        yield {
            "question": row["query"].removeprefix("Question: "),
            "choices": {"text": row["choices"], "label": labels},
            "answerKey": labels[row["gold"]],
        }


def mmlu(path: Path, name: str) -> Iterator[Row]:
    """JSON lines of {subject, question, choice0 … choice3, answer}, of all subjects."""
    for row in _lines(path):
        if row["subject"] == name:
            choices = [row[f"choice{index}"] for index in range(4)]
            yield {
                "question": row["question"],
                "subject": name,
                "choices": choices,
                "answer": row["answer"],
            }


def mgsm(path: Path, name: str) -> Iterator[Row]:
    """Lines of question, tab, number; or the solved examples, JSON lines of {lang, q, a}."""
    if path.suffix == ".tsv":
        for line in path.read_text(encoding="utf-8").strip().split("\n"):
            question, number = line.split("\t")
            yield {
                "question": question,
                "answer": None,
                "answer_number": int(number.replace(",", "")),
            }
        return
    for row in _lines(path):
        if row["lang"] == name:
            yield {
                "question": row["q"],
                "answer": row["a"],
                "answer_number": int(re.findall(r"\d+", row["a"])[-1]),
            }


def wikitext(path: Path, name: str) -> Iterator[Row]:
    """WikiText's raw file, an article a row.

    As in EleutherAI's document-level set an article begins at every line that reads like a title
    ("= TITLE =") once doubled signs are drawn together; two lines of the test set that are formulas
    do so too, which makes 62 rows of its 60 articles.
    """
    article: list[str] = []
    for line in [*path.read_text(encoding="utf-8").split("\n"), None]:
        if line is None or _is_title(line):
            page = "\n".join(article)
            if page.strip():
                yield {"page": page}
            article = []
        if line is not None:
            article.append(line)


def _is_title(line: str) -> bool:
    level = line.replace("= = =", "===").replace("= =", "==").strip()
    return level.startswith("= ") and level.endswith(" =")


def _lines(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)
