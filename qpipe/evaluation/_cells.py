"""A cell: one (variant, task) evaluation, kept by content."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from qpipe.errors import DamagedInput, MissingInput
from qpipe.records import read_json, read_table, staged_dir, write_json

__all__ = ["COLUMNS", "Result", "load_cell", "store_cell", "write_samples"]

COLUMNS = {
    "suite": "string",
    "task": "string",
    "category": "string",
    "doc_id": "string",
    "doc_hash": "string",
    "prompt_hash": "string",
    "target_hash": "string",
    "level": "Int64",
    "cluster": "string",
    "tags": "string",
    "response": "string",
    "empty": "boolean",
    "score": "float64",
    "unit": "string",
    "finish_reason": "string",
    "prompt_tokens": "Int64",
    "completion_tokens": "Int64",
}
"""Columns of ``samples.parquet`` and their types.

``unit`` is the score's; none: a share. ``empty`` says whether an answer is blank, ``finish_reason``
why it ended; both are missing where likelihood judges and nothing was generated.
"""


@dataclass(frozen=True)
class Result:
    """What one cell measured."""

    record: dict[str, Any]
    """Suite, category, n, metric, unit, score, value, data_hash, and what the engine did for it."""
    samples: pd.DataFrame
    """One row a question."""


def load_cell(folder: Path) -> Result | None:
    """The kept result, if there is one; a damaged one is as good as none."""
    try:
        kept = read_json(folder / "cell.json", "qpipe measure")
        samples = read_table(folder / "samples.parquet", "qpipe measure", list(COLUMNS))
    except (MissingInput, DamagedInput):
        return None
    del kept["schema_version"]
    return Result(kept, samples)


def store_cell(folder: Path, result: Result) -> None:
    """Keep a result; a kill leaves all of it or nothing."""
    with staged_dir(folder) as staged:
        write_samples(staged, result.samples)
        write_json(staged / "cell.json", result.record)


def write_samples(folder: Path, samples: pd.DataFrame) -> None:
    """Write ``samples.parquet``."""
    samples.to_parquet(folder / "samples.parquet", index=False)
