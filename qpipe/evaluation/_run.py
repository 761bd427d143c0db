"""Runs a variant's suites through lm-eval against its server."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from qpipe.config import BusinessSuite, Config, PublicSuite, PublicTask
from qpipe.errors import ConfigError, EngineError, EnvError, Fault, InvalidMeasurement
from qpipe.evaluation._cells import COLUMNS, Result, load_cell, store_cell, write_samples
from qpipe.evaluation._rows import load_business
from qpipe.evaluation._scorers import SCORERS_VERSION
from qpipe.records import SCHEMA_VERSION, digest, hash_file, staged_dir, write_json

if TYPE_CHECKING:
    from lm_eval.api.task import ConfigurableTask

    from qpipe.evaluation._served import ServedModel

__all__ = ["run_suites"]

_TOKENIZER_FILES = ("tokenizer*", "chat_template*", "special_tokens_map.json", "vocab*", "merges*")


@dataclass(frozen=True)
class _Cell:
    """One task to run: what identifies it and how to make it."""

    suite: str
    task: str
    category: str
    definition: dict[str, Any]
    """All that decides the prompts and the scores, besides data, model and engine."""
    data_hash: str
    limit: int | None
    chat: bool
    metric: str | None
    """lm-eval's ``METRIC`` or ``METRIC,FILTER``; the task's first when absent."""
    load: Callable[[], Mapping[str, ConfigurableTask]]


def run_suites(
    config: Config,
    variant: str,
    *,
    base_url: str,
    model_id: str,
    tokenizer_dir: Path,
    checkpoint_hash: str,
    context: dict[str, object],
    out_dir: Path,
    on_cell: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run the release's suites against ``base_url`` and write ``out_dir``.

    Finished cells are kept in the workspace's cache and not run again.

    Args:
        config: The release.
        variant: Name of the variant that is served.
        base_url: The server's OpenAI API, ending in ``/v1``.
        model_id: The model's name at the server.
        tokenizer_dir: Folder of the tokenizer the prompts are made with.
        checkpoint_hash: Hash of the served checkpoint.
        context: Everything else that makes results incomparable: engine, flags, arithmetic.
        out_dir: Where ``results.json`` and ``samples.parquet`` go.
        on_cell: Called with one line for every finished cell.

    Raises:
        ConfigError: a suite or a row is wrong.
        EngineError: a request failed.
        EnvError: the data cannot be loaded.
        InvalidMeasurement: prompts or scores cannot be trusted.
    """
    evaluation = config.release.evaluation
    common = {
        "checkpoint": checkpoint_hash,
        "context": context,
        "tokenizer": _tokenizer_hash(tokenizer_dir),
        "lm_eval": version("lm-eval"),
        "seed": evaluation.seed,
    }
    model: ServedModel | None = None
    results: list[tuple[_Cell, Result, bool]] = []
    log = config.workspace.logs / f"evaluate-{variant}.log"
    for cell in _cells(config, log):
        key = digest(common, cell.suite, cell.task, cell.definition, cell.data_hash, cell.limit)
        folder = config.workspace.cache / "cells" / key
        result, cached = load_cell(folder), True
        if result is None:
            cached = False
            with _quiet(log):
                if model is None:
                    from qpipe.evaluation._served import served_model

                    model = served_model(
                        base_url,
                        model_id,
                        tokenizer_dir,
                        concurrency=evaluation.concurrency,
                        seed=evaluation.seed,
                    )
                result = _evaluate(model, cell, evaluation.seed, log)
            store_cell(folder, result)
        results.append((cell, result, cached))
        if on_cell is not None:
            record = result.record
            took = "kept" if cached else f"{record['seconds']:.1f} s"
            on_cell(f"{cell.task}: {record['score']:.3f} over {record['n']} rows, {took}")
    return _write(out_dir, variant, checkpoint_hash, context, results)


def _cells(config: Config, log: Path) -> Iterator[_Cell]:
    # Business rows are checked before anything runs; their faults come all together.
    faults: list[Fault] = []
    business: dict[str, list[_Cell]] = {}
    owner: dict[str, str] = {}
    for name, suite in config.suites.items():
        where = config.suite_files[name]
        if isinstance(suite, BusinessSuite):
            try:
                business[name] = _business_cells(config, name, suite)
            except ConfigError as error:
                faults += error.faults
            continue
        for task in suite.tasks:
            if task in owner:
                message = f"the suite '{owner[task]}' has this task too"
                faults.append(Fault(str(where), f"tasks.{task}", message, "keep one of them"))
            owner.setdefault(task, name)
    if faults:
        raise ConfigError(faults)
    for name, suite in config.suites.items():
        if isinstance(suite, PublicSuite):
            yield from _public_cells(config, name, suite, log)
        else:
            yield from business[name]


def _business_cells(config: Config, name: str, suite: BusinessSuite) -> list[_Cell]:
    rows_by_category = load_business(config.suite_files[name], suite, config.workspace.root)
    cells = []
    for category, rows in rows_by_category.items():

        def load(
            task: str = f"{name}-{category}", category: str = category
        ) -> Mapping[str, ConfigurableTask]:
            from qpipe.evaluation._tasks import business_task

            return {task: business_task(task, rows_by_category[category], suite.max_tokens)}

        cells.append(
            _Cell(
                suite=name,
                task=f"{name}-{category}",
                category=category,
                definition={
                    "chat": suite.chat,
                    "max_tokens": suite.max_tokens,
                    "scorers": SCORERS_VERSION,
                },
                data_hash=digest([row.model_dump(mode="json") for row in rows]),
                limit=config.release.evaluation.limit,
                chat=suite.chat,
                metric="score",
                load=load,
            )
        )
    return cells


def _public_cells(config: Config, name: str, suite: PublicSuite, log: Path) -> Iterator[_Cell]:
    evaluation = config.release.evaluation
    data_dir = config.workspace.root / evaluation.data_dir if evaluation.data_dir else None
    with _quiet(log):
        from qpipe.evaluation._tasks import documents, load_public, public_tasks

        manager = public_tasks(suite.tasks)
    unknown = [
        Fault(
            str(config.suite_files[name]),
            f"tasks.{task}",
            "lm-eval has no such task",
            "see `python -m lm_eval ls tasks`",
        )
        for task in suite.tasks
        if task not in manager.task_index
    ]
    if unknown:
        raise ConfigError(unknown)
    for task, settings in suite.tasks.items():
        with _quiet(log):
            tasks = load_public(
                manager, task, settings, data_dir, config.workspace.cache / "datasets"
            )
            limit = _smaller(evaluation.limit, settings.limit)
            data_hash = digest(documents(tasks.values(), limit))
        if any(getattr(one, "UNSAFE_CODE", False) for one in tasks.values()) and not _unsafe():
            raise EnvError(
                f"'{task}' runs code that the model wrote",
                mend=f"set HF_ALLOW_CODE_EVAL=1 where that is safe, or take '{task}' out of {name}",
            )
        yield _Cell(
            suite=name,
            task=task,
            category=settings.category,
            definition={"chat": suite.chat, **_definition(settings, data_dir)},
            data_hash=data_hash,
            limit=limit,
            chat=suite.chat,
            metric=settings.metric,
            load=lambda tasks=tasks: tasks,  # type: ignore[misc]
        )


def _definition(task: PublicTask, data_dir: Path | None) -> dict[str, Any]:
    settings = task.model_dump(mode="json", exclude={"limit"})
    # Where the rows come from is in the data's hash; overrides apply to local rows only.
    return settings if data_dir else {**settings, "data_files": None, "override": {}}


def _unsafe() -> bool:
    return os.environ.get("HF_ALLOW_CODE_EVAL") == "1"


def _smaller(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _tokenizer_hash(folder: Path) -> str:
    paths = sorted({path for pattern in _TOKENIZER_FILES for path in folder.glob(pattern)})
    return digest([(path.name, hash_file(path)) for path in paths])


def _evaluate(model: ServedModel, cell: _Cell, seed: int, log: Path) -> Result:
    import aiohttp
    import requests
    from lm_eval.evaluator import evaluate

    tasks = cell.load()
    random.seed(seed)
    for task in tasks.values():
        if task.config.num_fewshot is None:
            task.set_config("num_fewshot", 0)
        task.set_fewshot_seed(seed)
    started = time.monotonic()
    try:
        # `simple_evaluate` around this asks git for commits, which is noise outside a checkout.
        outcome = evaluate(
            lm=model,
            task_dict={"tasks": tasks},
            limit=cell.limit,
            apply_chat_template=cell.chat,
            fewshot_as_multiturn=cell.chat,
            log_samples=True,
            bootstrap_iters=0,
            confirm_run_unsafe_code=_unsafe(),
        )
    except (aiohttp.ClientError, requests.RequestException, OSError) as error:
        reason = str(error) or type(error).__name__
        raise EngineError(
            f"a request of '{cell.task}' failed: {reason}",
            mend=f"see {log} and the engine's log; finished cells are kept",
        ) from error
    seconds = time.monotonic() - started
    samples, metric = _samples(outcome["samples"], cell)
    record = {
        "suite": cell.suite,
        "category": cell.category,
        "n": len(samples),
        "metric": metric,
        "score": float(samples["score"].mean()),
        "data_hash": cell.data_hash,
        "seconds": round(seconds, 3),
    }
    return Result(record, samples)


def _samples(by_task: Mapping[str, list[dict[str, Any]]], cell: _Cell) -> tuple[pd.DataFrame, str]:
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


def _sample(sample: dict[str, Any], metric: str, part: str, cell: _Cell) -> dict[str, Any]:
    score = sample.get(metric)
    if not isinstance(score, bool | int | float):
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
        "prompt_hash": sample["prompt_hash"],
        "target_hash": sample["target_hash"],
        "level": row.get("level"),
        "score": float(score),
        **_response(sample, by_byte=bool(row)),
    }


def _response(sample: dict[str, Any], by_byte: bool) -> dict[str, Any]:
    answers = [answers[0] for answers in sample["resps"]]
    if isinstance(answers[0], str):
        answer: Any = answers[0]
        return {
            "response": str(answer),
            "finish_reason": getattr(answer, "finish_reason", None),
            "prompt_tokens": getattr(answer, "prompt_tokens", None),
            "completion_tokens": getattr(answer, "completion_tokens", None),
        }
    values = [value for value, _ in answers]
    texts = [arguments[-1].strip() for arguments in sample["arguments"]]
    sizes = [len(text.encode()) or 1 if by_byte else 1 for text in texts]
    best = max(range(len(texts)), key=lambda index: values[index] / sizes[index])
    return {
        "response": texts[best],
        "finish_reason": None,
        "prompt_tokens": sum(value.prompt_tokens for value in values),
        "completion_tokens": None,
    }


@contextlib.contextmanager
def _quiet(log: Path) -> Iterator[None]:
    """lm-eval's messages go to ``log``; its progress bars go nowhere."""
    # Without PyTorch, which is not needed here, transformers says so at its import.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import datasets
    from tqdm import tqdm  # type: ignore[import-untyped]

    def without_bar(bar: Any, *arguments: Any, **settings: Any) -> None:
        original(bar, *arguments, **{**settings, "disable": True})

    original = tqdm.__init__
    log.parent.mkdir(parents=True, exist_ok=True)
    logger = logging.getLogger("lm_eval")
    handler = logging.FileHandler(log, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    kept = (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    tqdm.__init__ = without_bar
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
        logger.setLevel(kept[0])
        logger.propagate = kept[1]
        tqdm.__init__ = original
        datasets.enable_progress_bars()


def _write(
    out_dir: Path,
    variant: str,
    checkpoint_hash: str,
    context: dict[str, object],
    results: list[tuple[_Cell, Result, bool]],
) -> dict[str, Any]:
    samples = pd.concat([result.samples for _, result, _ in results], ignore_index=True)
    record: dict[str, Any] = {
        "variant": variant,
        "checkpoint_hash": checkpoint_hash,
        "context": context,
        "tasks": {
            cell.task: {**result.record, "cached": cached} for cell, result, cached in results
        },
        "categories": {
            str(category): {
                "n": len(rows),
                "score": float(rows["score"].mean()),
                "truncated_share": _truncated_share(rows),
            }
            for category, rows in samples.groupby("category", sort=False)
        },
    }
    with staged_dir(out_dir) as staged:
        write_samples(staged, samples)
        write_json(staged / "results.json", record)
    return {"schema_version": SCHEMA_VERSION, **record}


def _truncated_share(rows: pd.DataFrame) -> float:
    """Share of generated answers that the length limit cut; 0 where none was generated."""
    reasons = rows["finish_reason"].dropna()
    return float((reasons == "length").mean()) if len(reasons) else 0.0
