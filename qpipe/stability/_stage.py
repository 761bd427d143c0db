"""The stability part of ``qpipe measure``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qpipe.config import BusinessSuite, Config
from qpipe.evaluation import Bos, Row, Scorer, load_business, load_scorers, render, score
from qpipe.records import digest, write_json
from qpipe.serving import Client, Completion, each
from qpipe.stability._degenerate import KINDS, Sample, degenerate_kinds

__all__ = ["measure_stability"]


@dataclass(frozen=True)
class _Question:
    suite: str
    row: Row
    prompt: str
    ids: list[int]
    max_tokens: int


def measure_stability(
    config: Config,
    variant: str,
    client: Client,
    tokenizer_dir: Path,
    provenance: dict[str, Any],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Write ``out/stability/<variant>.json``: several sampled answers a question.

    A question's entry has the mean of its scores, their variance (sample variance, n - 1), and the
    share of its answers that are degenerate, by kind. Questions are the first of each category of
    the business suites that are answered in text; every variant gets the same.
    """
    from transformers import AutoTokenizer

    settings = config.release.stability
    tokenizer = AutoTokenizer.from_pretrained(
        tokenizer_dir, trust_remote_code=config.release.model.trust_remote_code
    )
    scorers = {
        name: load_scorers(config.suite_files[name], suite, config.workspace.root).scorers
        for name, suite in config.suites.items()
        if isinstance(suite, BusinessSuite)
    }
    questions = list(_questions(config, tokenizer, scorers))
    if questions:
        progress(f"stability: {settings.samples} answers to each of {len(questions)} questions")

    def ask(question: _Question) -> list[Completion]:
        return client.sample(
            question.ids,
            question.max_tokens,
            settings.samples,
            temperature=settings.temperature,
            stop=list(question.row.stop),
        )

    before = client.tokens()
    answers = each(ask, questions, config.release.evaluation.concurrency)
    entries = [
        _entry(question, completions, scorers[question.suite])
        for question, completions in zip(questions, answers, strict=True)
    ]
    record = {
        "variant": variant,
        "samples": settings.samples,
        "temperature": settings.temperature,
        "data_hash": digest(
            [[one.suite, one.prompt, one.row.model_dump(mode="json")] for one in questions],
            settings.model_dump(),
        ),
        "questions": entries,
        "exercises": client.tokens().since(before),
        "provenance": provenance,
    }
    write_json(config.workspace.stability(variant), record)
    return record


def _questions(
    config: Config, tokenizer: Any, scorers: Mapping[str, Mapping[str, Scorer]]
) -> Iterator[_Question]:
    bos = Bos.of(tokenizer)
    for name, suite in config.suites.items():
        if not isinstance(suite, BusinessSuite):
            continue
        rows = load_business(config.suite_files[name], suite, config.workspace.root)
        for group in rows.values():
            answered = [
                row
                for row in group
                if row.choices is None and not scorers[name][row.scorer].runs_code
            ]
            for row in answered[: config.release.stability.questions]:
                prompt = render(tokenizer, row.conversation) if suite.chat else row.text
                own = tokenizer(prompt, add_special_tokens=False)["input_ids"]
                ids = bos.begin(own, suite.chat)
                yield _Question(name, row, prompt, ids, row.max_tokens or suite.max_tokens)


def _entry(
    question: _Question, completions: list[Completion], scorers: Mapping[str, Scorer]
) -> dict[str, Any]:
    scores = np.array([score(question.row, each.text, scorers) for each in completions])
    shown = [
        degenerate_kinds(Sample(question.prompt, each.text, each.finish_reason))
        for each in completions
    ]
    return {
        "suite": question.suite,
        "category": question.row.category,
        "id": question.row.id,
        "score_mean": float(scores.mean()),
        "score_variance": float(scores.var(ddof=1)),
        "degenerate": float(np.mean([bool(kinds) for kinds in shown])),
        **{kind: float(np.mean([kind in kinds for kinds in shown])) for kind in KINDS},
    }
