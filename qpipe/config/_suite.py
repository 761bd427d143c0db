"""Suite files: groups of tasks, each with a category."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from qpipe.config._base import Model, Name

__all__ = ["LONG_CONTEXT", "READABLE", "BusinessSuite", "PublicSuite", "PublicTask", "Suite"]

LONG_CONTEXT = "long-context"
"""The category of questions and texts on which a quantized KV cache is judged."""
READABLE = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
"""Local rows that are read as they are, by the file's suffix."""


def _check_function(value: str) -> str:
    if not re.fullmatch(r"[^:]+\.py:[^\W\d]\w*", value):
        raise ValueError("a function is named FILE.py:FUNCTION")
    return value


Function = Annotated[str, AfterValidator(_check_function)]


class BusinessSuite(Model):
    """A user's own JSONL files, one a category."""

    kind: Literal["business"]
    files: dict[Name, str]
    """Category → JSONL path, relative to the suite file."""
    chat: bool = True
    """Put prompts through the model's chat template."""
    max_tokens: Annotated[int, Field(gt=0)] = 32
    """Longest answer in tokens; a row's ``max_tokens`` overrides it."""
    cluster_by: Name = "cluster"
    """Questions with one tag ``CLUSTER_BY:…`` in common depend on each other and count together in
    intervals and tests: ``cluster``, or for instance ``template``."""
    scorers: dict[Name, Function] = Field(default_factory=dict)
    """The suite's own scorers: name → ``FILE.py:FUNCTION``, the file relative to the suite file. A
    function takes a row (dict) and an answer (str) and gives a number from 0 to 1."""


class PublicTask(Model):
    """One lm-eval task, or one of its groups or tags."""

    category: Name
    num_fewshot: int | None = Field(default=None, ge=0)
    """Examples before the question; the task's own when absent."""
    limit: int | None = Field(default=None, gt=0)
    """At most this many questions; of a group, in each of its tasks."""
    rows: Function | None = None
    """``FILE.py:FUNCTION``, the file relative to the suite file: reads ``data_files`` in the form
    in which they come. It takes a path and the ``dataset_name`` of lm-eval's task (``anatomy`` of
    ``mmlu_anatomy``) and gives rows (dicts) with the columns that the set has on the hub."""
    data_files: str | dict[str, str] | None = None
    """Under ``data_dir``: local rows, read instead of the hub. A file, or one a split (``train``,
    ``test`` …, as the set on the hub has them). ``{name}`` stands for the task's ``dataset_name``,
    so that a group reads a file a task."""
    override: dict[str, object] = Field(default_factory=dict)
    """lm-eval task keys to replace when local rows are read."""
    metadata: dict[str, object] = Field(default_factory=dict)
    """What lm-eval's task takes as metadata (``max_seq_lengths`` of RULER's)."""
    metric: str | None = None
    """lm-eval's metric to report, ``METRIC`` or ``METRIC,FILTER`` (``acc``); the task's first when
    absent. ``{column}`` in it stands for the question's own value (``{max_length}`` of RULER's)."""

    @field_validator("data_files")
    @classmethod
    def _readable(
        cls, value: str | dict[str, str] | None, info: ValidationInfo
    ) -> str | dict[str, str] | None:
        files = [value] if isinstance(value, str) else (value or {}).values()
        unknown = [file for file in files if PurePath(file).suffix not in READABLE]
        if unknown and info.data.get("rows") is None:
            mend = f"name a function under `rows`, or take a file in {', '.join(READABLE)}"
            message = "{file} is not read as it is"
            raise PydanticCustomError("unreadable", message, {"file": unknown[0], "mend": mend})
        return value

    @model_validator(mode="after")
    def _rows_of_files(self) -> PublicTask:
        if self.rows is not None and self.data_files is None:
            mend = "add `data_files`, or take `rows` out"
            raise PydanticCustomError("no_files", "there are no files to read", {"mend": mend})
        return self


class PublicSuite(Model):
    """lm-eval's built-in tasks, grouped by category."""

    kind: Literal["public"]
    tasks: dict[str, PublicTask]
    """lm-eval task name → settings."""
    chat: bool = False
    """Put prompts through the model's chat template."""


Suite = Annotated[BusinessSuite | PublicSuite, Field(discriminator="kind")]
