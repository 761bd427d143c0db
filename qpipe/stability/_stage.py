"""The stability part of ``qpipe measure``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qpipe.config import Config
from qpipe.evaluation import score
from qpipe.records import digest, write_json
from qpipe.serving import Client, Completion, each
from qpipe.stability._degenerate import KINDS, Sample, degenerate_kinds
from qpipe.stability._questions import Question

__all__ = ["measure_stability"]


def measure_stability(
    config: Config,
    variant: str,
    questions: Sequence[Question],
    client: Client,
    provenance: dict[str, Any],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Write ``out/stability/<variant>.json``: several sampled answers a question.

    A question's entry has the mean of its scores, their variance (sample variance, n - 1), and the
    share of its answers that are degenerate, by kind.
    """
    settings = config.release.stability
    if questions:
        progress(f"stability: {settings.samples} answers to each of {len(questions)} questions")

    def ask(question: Question) -> list[Completion]:
        return client.sample(
            question.ids,
            question.max_tokens,
            settings.samples,
            temperature=settings.temperature,
            stop=list(question.row.stop),
        )

    before = client.tokens()
    answers = each(ask, questions, config.release.evaluation.concurrency)
    record = {
        "variant": variant,
        "samples": settings.samples,
        "temperature": settings.temperature,
        "data_hash": digest(
            [[one.suite, one.prompt, one.row.model_dump(mode="json")] for one in questions],
            settings.model_dump(),
        ),
        "questions": [_entry(*pair) for pair in zip(questions, answers, strict=True)],
        "exercises": client.tokens().since(before),
        "provenance": provenance,
    }
    write_json(config.workspace.stability(variant), record)
    return record


def _entry(question: Question, completions: list[Completion]) -> dict[str, Any]:
    scores = np.array([score(question.row, each.text, question.scorers) for each in completions])
    shown = [
        degenerate_kinds(Sample(question.prompt, each.text, each.finish_reason))
        for each in completions
    ]
    return {
        "suite": question.suite,
        "category": question.row.category,
        "id": question.row.id,
        "cluster": question.cluster,
        "score_mean": float(scores.mean()),
        "score_variance": float(scores.var(ddof=1)),
        "degenerate": float(np.mean([bool(kinds) for kinds in shown])),
        **{kind: float(np.mean([kind in kinds for kinds in shown])) for kind in KINDS},
    }
