"""Runs a variant's suites through lm-eval against its server."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from qpipe.config import Config
from qpipe.evaluation._cells import Result, load_cell, store_cell, write_samples
from qpipe.evaluation._plan import Cell, SuitePlan, evaluation_log
from qpipe.evaluation._quiet import quiet
from qpipe.hardware import identity
from qpipe.model import GENERATION_FILES, TEMPLATE_FILES, TOKENIZER_FILES
from qpipe.records import SCHEMA_VERSION, digest, hash_matching, staged_dir, write_json
from qpipe.serving import another_concurrency

if TYPE_CHECKING:
    from qpipe.evaluation._ask import Questions

__all__ = ["import_lm_eval", "run_suites"]

_TELL_S = 60  # between two words on how many answers are there


def import_lm_eval() -> None:
    """Import now what ``run_suites`` imports when it needs it: seconds."""
    from qpipe.evaluation import _ask, _business, _public  # noqa: F401


def run_suites(
    config: Config,
    variant: str,
    plan: SuitePlan,
    *,
    base_url: str,
    model_id: str,
    tokenizer_dir: Path,
    checkpoint_hash: str,
    context: dict[str, Any],
    out_dir: Path,
    again: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Run a plan's cells against ``base_url`` and write ``out_dir``.

    Generated answers of all cells are asked together, so that the engine does not wait for the
    longest answer of each; then cell by cell is scored. Finished cells are kept in the workspace's
    cache and not run again; of a run that was killed, the answers that had come are kept, but for
    sampled ones.

    Args:
        config: The release.
        variant: Name of the variant that is served.
        plan: What ``plan_suites`` planned.
        base_url: The server's OpenAI API, ending in ``/v1``.
        model_id: The model's name at the server.
        tokenizer_dir: Folder of the tokenizer the prompts are made with.
        checkpoint_hash: Hash of the served checkpoint.
        context: Everything else that makes results incomparable: engine, flags, arithmetic.
        out_dir: Where ``results.json`` and ``samples.parquet`` go.
        again: A second time, in reverse order and at another concurrency: what differs then is
            noise, as batches are composed otherwise.
        progress: Called with a line for every finished cell, and each minute of answers.

    Raises:
        EngineError: a request failed.
        InvalidMeasurement: prompts or scores cannot be trusted.
    """
    evaluation = config.release.evaluation
    cells, concurrency = plan.cells, evaluation.concurrency
    if again:
        cells, concurrency = cells[::-1], another_concurrency(concurrency)
    common = {
        "checkpoint": checkpoint_hash,
        "context": {**context, "hardware": identity(context.get("hardware") or {})},
        "tokenizer": hash_matching(tokenizer_dir, *TOKENIZER_FILES, *TEMPLATE_FILES, "*.py"),
        # The engine's defaults where a request says nothing.
        "generation": hash_matching(tokenizer_dir, *GENERATION_FILES),
        "lm_eval": version("lm-eval"),
        # Prompts, requests and scores are made by this package: another code, another result.
        "code": hash_matching(Path(__file__).parent, "*.py"),
        "seed": evaluation.seed,
        "again": again,
        "concurrency": concurrency,
    }
    folders = [
        config.workspace.cache
        / "cells"
        / digest(common, cell.suite, cell.task, cell.definition, cell.data_hash, cell.limit)
        for cell in cells
    ]
    kept = [load_cell(folder) for folder in folders]
    questions: Questions | None = None
    new = [cell for cell, result in zip(cells, kept, strict=True) if result is None]
    # Two: lm-eval's keys say nothing of the model, nor of how a prompt begins.
    answers = {
        chat: config.workspace.cache / "requests" / f"{digest(common, chat)}.db"
        for chat in (False, True)
    }
    log = evaluation_log(config, variant)
    started = time.monotonic()
    if new:
        with quiet(log):
            from qpipe.evaluation._ask import Questions
            from qpipe.evaluation._served import served_model

            model = served_model(
                base_url,
                model_id,
                tokenizer_dir,
                concurrency=concurrency,
                window=plan.window,
                seed=evaluation.seed,
                log=log,
                backwards=again,
                trust_remote_code=config.release.model.trust_remote_code,
                on_answer=_each_minute(progress),
            )
            questions = Questions(new, model, answers, evaluation.seed)
            questions.ask()
    results: list[tuple[Cell, Result, bool]] = []
    for cell, folder, found in zip(cells, folders, kept, strict=True):
        result = found
        if result is None:
            assert questions is not None
            with quiet(log):
                result = questions.score(cell)
            store_cell(folder, result)
        results.append((cell, result, found is not None))
        record = result.record
        whence = ", kept" if found is not None else ""
        unit = f" {record['unit']}" if record["unit"] else ""
        progress(f"{cell.task}: {record['score']:.3f}{unit} over {record['n']} rows{whence}")
    for path in answers.values():
        path.unlink(missing_ok=True)
    seconds = round(time.monotonic() - started, 3)
    return _write(out_dir, variant, checkpoint_hash, context, results, plan.not_measured, seconds)


def _each_minute(progress: Callable[[str], None]) -> Callable[[int, int], None]:
    told = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told >= _TELL_S:
            told = time.monotonic()
            progress(f"{done} of {total} answers")

    return tell


def _write(
    out_dir: Path,
    variant: str,
    checkpoint_hash: str,
    context: dict[str, object],
    results: list[tuple[Cell, Result, bool]],
    not_measured: dict[str, dict[str, str]],
    seconds: float,
) -> dict[str, Any]:
    samples = pd.concat([result.samples for _, result, _ in results], ignore_index=True)
    record: dict[str, Any] = {
        "variant": variant,
        "checkpoint_hash": checkpoint_hash,
        "context": context,
        "tasks": {
            cell.task: {**result.record, "cached": cached} for cell, result, cached in results
        },
        "not_measured": not_measured,
        "seconds": seconds,  # of what was not kept
        "categories": {
            str(category): {
                "n": len(rows),
                "score": float(rows["score"].mean()),
                "unit": _one(rows["unit"]),
                "truncated_share": _truncated_share(rows),
                "empty": int(rows["empty"].sum()),
            }
            for category, rows in samples.groupby("category", sort=False)
        },
    }
    with staged_dir(out_dir) as staged:
        write_samples(staged, samples)
        write_json(staged / "results.json", record)
    return {"schema_version": SCHEMA_VERSION, **record}


def _one(units: pd.Series[str]) -> str | None:
    """The unit of a category's scores, which is that of each."""
    first = units.iloc[0]
    return None if pd.isna(first) else str(first)


def _truncated_share(rows: pd.DataFrame) -> float:
    """Share of generated answers that the length limit cut; 0 where none was generated."""
    reasons = rows["finish_reason"].dropna()
    return float((reasons == "length").mean()) if len(reasons) else 0.0
