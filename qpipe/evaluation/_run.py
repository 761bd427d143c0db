"""Runs a variant's suites through lm-eval against its server."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from importlib.metadata import version
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from qpipe.config import Config
from qpipe.errors import EngineError
from qpipe.evaluation._cells import Result, load_cell, store_cell, write_samples
from qpipe.evaluation._model_code import may_run_code
from qpipe.evaluation._plan import Cell, SuitePlan, evaluation_log
from qpipe.evaluation._questions import field_table, question_rows
from qpipe.evaluation._quiet import quiet
from qpipe.hardware import identity
from qpipe.model import GENERATION_FILES, TEMPLATE_FILES, TOKENIZER_FILES
from qpipe.records import SCHEMA_VERSION, digest, hash_matching, staged_dir, write_json
from qpipe.serving import Tokens, another_concurrency

if TYPE_CHECKING:
    from lm_eval.api.model import CachingLM

    from qpipe.evaluation._served import ServedModel

__all__ = ["import_lm_eval", "run_suites"]

# Not every OSError: a full disk is no failed request.
_BROKEN = (TimeoutError, ConnectionError)


def import_lm_eval() -> None:
    """Import now what ``run_suites`` imports when it needs it: seconds."""
    from qpipe.evaluation import _business, _public, _served  # noqa: F401


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
    tokens: Callable[[], Tokens],
    out_dir: Path,
    again: bool = False,
    on_cell: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run a plan's cells against ``base_url`` and write ``out_dir``.

    Finished cells are kept in the workspace's cache and not run again; of a cell that was killed,
    the answers that had come are kept.

    Args:
        config: The release.
        variant: Name of the variant that is served.
        plan: What ``plan_suites`` planned.
        base_url: The server's OpenAI API, ending in ``/v1``.
        model_id: The model's name at the server.
        tokenizer_dir: Folder of the tokenizer the prompts are made with.
        checkpoint_hash: Hash of the served checkpoint.
        context: Everything else that makes results incomparable: engine, flags, arithmetic.
        tokens: The engine's counters, read before and after each task: what it exercises. A task
            that goes on after a kill has what was done since.
        out_dir: Where ``results.json`` and ``samples.parquet`` go.
        again: A second time, in reverse order and at another concurrency: what differs then is
            noise, as batches are composed otherwise.
        on_cell: Called with one line for every finished cell.

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
    model: ServedModel | None = None
    results: list[tuple[Cell, Result, bool]] = []
    log = evaluation_log(config, variant)
    for cell in cells:
        key = digest(common, cell.suite, cell.task, cell.definition, cell.data_hash, cell.limit)
        folder = config.workspace.cache / "cells" / key
        result, cached = load_cell(folder), True
        if result is None:
            cached = False
            with quiet(log):
                if model is None:
                    from qpipe.evaluation._served import answered, served_model

                    model = served_model(
                        base_url,
                        model_id,
                        tokenizer_dir,
                        concurrency=concurrency,
                        window=plan.window,
                        seed=evaluation.seed,
                        backwards=again,
                        trust_remote_code=config.release.model.trust_remote_code,
                    )
                asked = config.workspace.cache / "requests" / f"{key}.db"
                with answered(model, asked, cell.chat) as lm:
                    before = tokens()
                    result = _evaluate(lm, cell, evaluation.seed, log)
                    result.record["exercises"] = tokens().since(before)
                result.record["bos"] = model.bos_record()
            store_cell(folder, result)
            asked.unlink(missing_ok=True)
        results.append((cell, result, cached))
        if on_cell is not None:
            record = result.record
            took = "kept" if cached else f"{record['seconds']:.1f} s"
            unit = f" {record['unit']}" if record["unit"] else ""
            on_cell(f"{cell.task}: {record['score']:.3f}{unit} over {record['n']} rows, {took}")
    return _write(out_dir, variant, checkpoint_hash, context, results, plan.not_measured)


def _evaluate(model: CachingLM, cell: Cell, seed: int, log: Path) -> Result:
    import aiohttp
    import requests
    from lm_eval.evaluator import evaluate

    loaded = cell.load()
    random.seed(seed)
    for task in loaded["tasks"].values():
        if task.config.num_fewshot is None:
            task.set_config("num_fewshot", 0)
        task.set_fewshot_seed(seed)
    started = time.monotonic()
    try:
        # `simple_evaluate` around this asks git for commits, which is noise outside a checkout.
        outcome = evaluate(
            lm=model,
            task_dict=loaded,
            limit=cell.limit,
            apply_chat_template=cell.chat,
            fewshot_as_multiturn=cell.chat,
            log_samples=True,
            bootstrap_iters=0,
            confirm_run_unsafe_code=may_run_code(),
        )
    except (aiohttp.ClientError, requests.RequestException, JSONDecodeError, *_BROKEN) as error:
        reason = str(error) or type(error).__name__
        raise EngineError(
            f"a request of '{cell.task}' failed: {reason}",
            mend=f"see {log} and the engine's log; finished cells are kept",
        ) from error
    seconds = time.monotonic() - started
    samples, metric = question_rows(outcome["samples"], cell)
    record = {
        "suite": cell.suite,
        "category": cell.category,
        "n": len(samples),
        "metric": metric,
        "unit": cell.unit,
        "score": float(samples["score"].mean()),
        "empty": int(samples["empty"].sum()),
        # lm-eval's own figure: a perplexity where scores are log-likelihoods; a tag has none.
        "value": _figure(outcome["results"], cell.task, metric),
        "data_hash": cell.data_hash,
        "seconds": round(seconds, 3),
        "fields": field_table(outcome["samples"], cell),
    }
    return Result(record, samples)


def _figure(results: dict[str, dict[str, Any]], task: str, metric: str) -> float | None:
    found = results.get(task, {}).get(metric)
    return None if found is None else float(found)


def _write(
    out_dir: Path,
    variant: str,
    checkpoint_hash: str,
    context: dict[str, object],
    results: list[tuple[Cell, Result, bool]],
    not_measured: dict[str, dict[str, str]],
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
