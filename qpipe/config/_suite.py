"""Suite files: groups of tasks, each with a category."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from qpipe.config._base import Model, Name

__all__ = ["BusinessSuite", "PublicSuite", "PublicTask", "Suite"]


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
    """One lm-eval task."""

    category: Name
    num_fewshot: int | None = Field(default=None, ge=0)
    """Examples before the question; the task's own when absent."""
    limit: int | None = Field(default=None, gt=0)
    """At most this many questions."""
    data_files: str | dict[str, str] | None = None
    """Under ``data_dir``: local rows (split → file), read instead of the hub."""
    override: dict[str, object] = Field(default_factory=dict)
    """lm-eval task keys to replace when local rows are read (their columns may differ)."""
    metric: str | None = None
    """lm-eval's metric to report (``acc``, ``exact_match``); the task's first when absent."""


class PublicSuite(Model):
    """lm-eval's built-in tasks, grouped by category."""

    kind: Literal["public"]
    tasks: dict[str, PublicTask]
    """lm-eval task name → settings."""
    chat: bool = False
    """Put prompts through the model's chat template."""


Suite = Annotated[BusinessSuite | PublicSuite, Field(discriminator="kind")]
