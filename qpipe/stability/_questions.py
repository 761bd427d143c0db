"""The questions that are sampled: the first of each category that are answered in text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qpipe.config import BusinessSuite, Config
from qpipe.evaluation import (
    Bos,
    Row,
    Scorer,
    cluster_tag,
    load_business,
    load_scorers,
    render,
)
from qpipe.model import load_tokenizer

__all__ = ["Question", "sampled_questions"]


@dataclass(frozen=True)
class Question:
    """A row as it is asked, and what judges its answers."""

    suite: str
    row: Row
    scorers: Mapping[str, Scorer]
    cluster: str
    """The same for questions that depend on each other."""
    prompt: str
    ids: list[int]
    max_tokens: int


def sampled_questions(config: Config, tokenizer_dir: Path) -> list[Question]:
    """The first questions of each category of the business suites; every variant gets the same.

    Those judged by likelihood or by running code are left out.

    Raises:
        ConfigError: a row or a user's scorer is wrong.
    """
    if not config.release.stability.questions:
        return []
    tokenizer = load_tokenizer(tokenizer_dir, config.release.model.trust_remote_code)
    return [
        question
        for name, suite in config.suites.items()
        if isinstance(suite, BusinessSuite)
        for question in _of_suite(config, name, suite, tokenizer)
    ]


def _of_suite(
    config: Config, name: str, suite: BusinessSuite, tokenizer: Any
) -> Iterator[Question]:
    where, root, bos = config.suite_files[name], config.workspace.root, Bos.of(tokenizer)
    scorers = load_scorers(where, suite, root).scorers
    for rows in load_business(where, suite, root).values():
        answered = [
            row for row in rows if row.choices is None and not scorers[row.scorer].runs_code
        ]
        for row in answered[: config.release.stability.questions]:
            prompt = render(tokenizer, row.conversation) if suite.chat else row.text
            own = tokenizer(prompt, add_special_tokens=False)["input_ids"]
            yield Question(
                suite=name,
                row=row,
                scorers=scorers,
                cluster=f"{name}/{cluster_tag(row.tags, suite.cluster_by) or row.id}",
                prompt=prompt,
                ids=bos.begin(own, suite.chat),
                max_tokens=row.max_tokens or suite.max_tokens,
            )
