"""Turns lm-eval's logged samples into rows, one a question."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from qpipe.errors import InvalidMeasurement
from qpipe.evaluation._cells import COLUMNS
from qpipe.evaluation._plan import Cell
from qpipe.evaluation._rows import Row, cluster_tag
from qpipe.evaluation._scorers import field_counts, field_summary
from qpipe.records import digest

__all__ = ["field_table", "question_rows"]


def question_rows(
    by_task: Mapping[str, list[dict[str, Any]]], cell: Cell
) -> tuple[pd.DataFrame, str]:
    """The rows of one cell, and the metric and filter their scores are of.

    Raises:
        InvalidMeasurement: the task has no such filter, or no score a question under the metric.
    """
    rows: list[dict[str, Any]] = []
    metric, _, wanted = (cell.metric or "").partition(",")
    for task, samples in by_task.items():
        metric = metric or samples[0]["metrics"][0]
        wanted = wanted or samples[0]["filter"]
        for sample in samples:
            if sample["filter"] == wanted:
                part = f"{task}/" if len(by_task) > 1 else ""
                rows.append(_sample(sample, metric, part, cell))
    if not rows:
        raise InvalidMeasurement(
            f"'{cell.task}' has no filter '{wanted}'", mend="correct the task's metric"
        )
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS), f"{metric},{wanted}"


def field_table(by_task: Mapping[str, list[dict[str, Any]]], cell: Cell) -> dict[str, Any]:
    """Precision, recall and F1 a field over the questions of scorer ``json_fields``."""
    if cell.metric != "score":
        return {}
    asked = [
        (json.loads(sample["doc"]["row"]), sample["resps"][0][0])
        for samples in by_task.values()
        for sample in samples
    ]
    return field_summary(
        field_counts(Row.model_validate(row), answer)
        for row, answer in asked
        if row["scorer"] == "json_fields"
    )


def _sample(sample: dict[str, Any], metric: str, part: str, cell: Cell) -> dict[str, Any]:
    score = _score(sample, metric, cell.unit)
    if score is None:
        raise InvalidMeasurement(
            f"'{cell.task}' gives no score a question under '{metric}'",
            mend=f"set the task's metric to one of: {', '.join(sample['metrics'])}",
        )
    # Business docs are whole rows: they carry an id and a level.
    row = json.loads(sample["doc"]["row"]) if cell.metric == "score" else {}
    return {
        "suite": cell.suite,
        "task": cell.task,
        "category": cell.category,
        "doc_id": row.get("id", f"{part}{sample['doc_id']}"),
        "doc_hash": sample["doc_hash"],
        # In other windows the same text is another question.
        "prompt_hash": digest(sample["prompt_hash"], cell.window)
        if cell.window
        else sample["prompt_hash"],
        "target_hash": sample["target_hash"],
        "level": row.get("level"),
        "cluster": cluster_tag(row.get("tags", []), cell.cluster_by),
        "tags": ",".join(row.get("tags", [])),
        "score": score,
        "unit": cell.unit,
        **_response(sample, by_byte=bool(row)),
    }


def _score(sample: dict[str, Any], metric: str, unit: str | None) -> float | None:
    """The question's score; a log-likelihood that comes with a text's length is divided by it."""
    if "{" in metric:
        try:
            metric = metric.format_map(sample["doc"])
        except (KeyError, ValueError):
            return None
    score = sample.get(metric)
    if unit and isinstance(score, tuple):
        log_likelihood, length = score
        return float(log_likelihood) / float(length)
    return float(score) if isinstance(score, bool | int | float) else None


def _response(sample: dict[str, Any], by_byte: bool) -> dict[str, Any]:
    answers = [answers[0] for answers in sample["resps"]]
    if isinstance(answers[0], str):
        answer: Any = answers[0]
        return {
            "response": str(answer),
            "empty": not answer.strip(),
            "finish_reason": answer.finish_reason,
            "prompt_tokens": answer.usage.prompt_tokens,
            "completion_tokens": answer.usage.completion_tokens,
        }
    if isinstance(answers[0], float):  # a whole text's log-likelihood
        keys = ("response", "finish_reason", "prompt_tokens", "completion_tokens")
        return dict.fromkeys(keys)
    values = [value for value, _ in answers]
    texts = [arguments[-1].strip() for arguments in sample["arguments"]]
    sizes = [len(text.encode()) or 1 if by_byte else 1 for text in texts]
    best = max(range(len(texts)), key=lambda index: values[index] / sizes[index])
    return {
        "response": texts[best],
        "empty": None,
        "finish_reason": None,
        "prompt_tokens": sum(value.usage.prompt_tokens for value in values),
        "completion_tokens": None,
    }
