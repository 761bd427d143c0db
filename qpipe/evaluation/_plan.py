"""Plans an evaluation: the tasks of a release's suites, checked before any runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

import numpy as np

from qpipe.config import BusinessSuite, Config, PublicSuite, PublicTask, Suite
from qpipe.errors import ConfigError, EnvError, Fault
from qpipe.evaluation._model_code import code_refused, may_run_code
from qpipe.evaluation._own import Reader, load_readers, load_scorers
from qpipe.evaluation._quiet import quiet
from qpipe.evaluation._rows import load_business
from qpipe.evaluation._sandbox import LIMITS, require_sandbox
from qpipe.model import has_chat_template
from qpipe.records import digest
from qpipe.serving import shortest_context

if TYPE_CHECKING:
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks.manager import TaskDict

__all__ = ["Cell", "SuitePlan", "evaluation_log", "plan_suites"]

# lm-eval's metrics whose score a question is a log-likelihood; all others are shares.
_UNITS = {
    "word_perplexity": "nats a word",
    "byte_perplexity": "nats a byte",
    "bits_per_byte": "nats a byte",
    "perplexity": "nats",
}
_ROLLING = "loglikelihood_rolling"


@dataclass(frozen=True)
class Cell:
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
    load: Callable[[], TaskDict]
    cluster_by: str = "cluster"
    """Prefix of the tag that dependent questions share."""
    runs_code: bool = False
    """Rows are judged by running what the model wrote, in the sandbox."""
    unit: str | None = None
    """Of the score a question; ``None``: a share, from 0 to 1."""
    window: int | None = None
    """Tokens of the windows that whole texts are scored in; ``None``: no text is."""


@dataclass(frozen=True)
class SuitePlan:
    """What will be asked, and what cannot be asked here."""

    cells: list[Cell]
    not_measured: dict[str, dict[str, str]]
    """Tasks that are left out: ``category`` and ``reason``."""
    window: int
    """Tokens of the windows that whole texts are scored in."""


def plan_suites(config: Config, variant: str, tokenizer_dir: Path) -> SuitePlan:
    """The cells of all suites, in the release file's order; all is checked and all rows are there.

    A public task whose code wants more than rows (a metric, a package) is left out where that is
    not to be had; rows are the user's to bring.

    Raises:
        ConfigError: a suite, a row or a user's function is wrong, or a suite chats with a model
            without a template.
        EnvError: the data cannot be loaded, or a task runs code and that is not allowed or this
            machine has no sandbox for it; or all tasks would be left out.
    """
    log = evaluation_log(config, variant)
    faults: list[Fault] = []
    business: dict[str, list[Cell]] = {}
    owner: dict[str, str] = {}
    for name, suite in config.suites.items():
        where = config.suite_files[name]
        if suite.chat and not has_chat_template(tokenizer_dir):
            message = "the model's tokenizer has no chat template"
            faults.append(Fault(str(where), "chat", message, "set `chat: false`"))
        if isinstance(suite, BusinessSuite):
            try:
                business[name] = _business_cells(config, name, suite)
            except ConfigError as error:
                faults += error.faults
        for key, task in _task_names(name, suite):
            if task in owner:
                message = f"the suite '{owner[task]}' has a task of the name '{task}' too"
                faults.append(Fault(str(where), key, message, "keep or rename one of them"))
            owner.setdefault(task, name)
    if faults:
        raise ConfigError(faults)
    for cell in (cell for own in business.values() for cell in own if cell.runs_code):
        if not may_run_code():
            raise code_refused(cell.task)
        require_sandbox()
    # One window for all variants: a text in other windows is another question.
    window = shortest_context(config)
    plan = SuitePlan([], {}, window)
    for name, suite in config.suites.items():
        if isinstance(suite, PublicSuite):
            plan.cells.extend(_public_cells(config, name, suite, tokenizer_dir, log, plan))
        else:
            plan.cells.extend(business[name])
    if not plan.cells:
        reasons = "; ".join(f"{task}: {why['reason']}" for task, why in plan.not_measured.items())
        raise EnvError(f"no task can be measured here: {reasons}", mend="bring what is missing")
    faults = list(_mixed_units(config, plan.cells))
    if faults:
        raise ConfigError(faults)
    return plan


def evaluation_log(config: Config, variant: str) -> Path:
    """Where lm-eval's messages go."""
    return config.workspace.logs / f"evaluate-{variant}.log"


def _task_names(name: str, suite: Suite) -> Iterator[tuple[str, str]]:
    """(key in the suite's file, task) of each of a suite's tasks."""
    if isinstance(suite, BusinessSuite):
        yield from ((f"files.{each}", _business_task(name, each)) for each in suite.files)
    else:
        yield from ((f"tasks.{each}", each) for each in suite.tasks)


def _business_task(suite: str, category: str) -> str:
    return f"{suite}-{category}"


def _business_cells(config: Config, name: str, suite: BusinessSuite) -> list[Cell]:
    root = config.workspace.root
    faults: list[Fault] = []
    try:
        rows_by_category = load_business(config.suite_files[name], suite, root)
    except ConfigError as error:
        faults += error.faults
    try:
        own = load_scorers(config.suite_files[name], suite, root)
    except ConfigError as error:
        faults += error.faults
    if faults:
        raise ConfigError(faults)
    cells = []
    for category, rows in rows_by_category.items():

        def load(task: str = _business_task(name, category), category: str = category) -> TaskDict:
            from qpipe.evaluation._business import business_task

            rows = rows_by_category[category]
            return {"tasks": {task: business_task(task, rows, suite.max_tokens, own.scorers)}}

        used = {row.scorer for row in rows}
        runs_code = any(own.scorers[scorer].runs_code for scorer in used)
        cells.append(
            Cell(
                suite=name,
                task=_business_task(name, category),
                category=category,
                definition={
                    "chat": suite.chat,
                    "max_tokens": suite.max_tokens,
                    "cluster_by": suite.cluster_by,
                    "own_scorers": {
                        key: value for key, value in own.definitions.items() if key in used
                    },
                    # Another Python, another meaning of the same code.
                    "sandbox": {"python": python_version(), **LIMITS} if runs_code else None,
                },
                data_hash=digest([row.model_dump(mode="json") for row in rows]),
                limit=config.release.evaluation.limit,
                chat=suite.chat,
                metric="score",
                load=load,
                cluster_by=suite.cluster_by,
                runs_code=runs_code,
            )
        )
    return cells


def _public_cells(
    config: Config, name: str, suite: PublicSuite, tokenizer_dir: Path, log: Path, plan: SuitePlan
) -> Iterator[Cell]:
    """Cells of the tasks that can be measured; the others are noted in ``plan``."""
    evaluation, suite_file = config.release.evaluation, config.suite_files[name]
    readers = load_readers(suite_file, suite, config.workspace.root)
    with quiet(log):
        from qpipe.evaluation._local import local_files
        from qpipe.evaluation._public import (
            Unavailable,
            documents,
            load_public,
            public_tasks,
            require_files,
        )

        manager = public_tasks(suite.tasks, tokenizer_dir)
    unknown = [
        Fault(
            str(suite_file),
            f"tasks.{task}",
            "lm-eval has no such task",
            "see `python -m lm_eval ls tasks`",
        )
        for task in suite.tasks
        if task not in manager.task_index
    ]
    if unknown:
        raise ConfigError(unknown)
    files = {}
    if evaluation.data_dir is not None:
        folder, cache = config.workspace.root / evaluation.data_dir, config.workspace.cache
        files = local_files(suite, folder, readers, cache / "datasets")
        require_files(manager, files)
    faults: list[Fault] = []
    for task, settings in suite.tasks.items():
        # Some tasks draw their rows: as `lm_eval --seed` does, and the same for every variant.
        random.seed(evaluation.seed)
        np.random.seed(evaluation.seed)
        limit = _smaller(evaluation.limit, settings.limit)
        try:
            with quiet(log):
                loaded = load_public(manager, task, settings, files.get(task), suite_file)
                tasks = loaded["tasks"].values()
                data_hash = digest(documents(tasks, limit))
            metric = _metric(task, settings, tasks, suite_file)
        except Unavailable as error:
            plan.not_measured[task] = {"category": settings.category, "reason": str(error)}
            continue
        except ConfigError as error:
            faults += error.faults
            continue
        if any(getattr(one, "UNSAFE_CODE", False) for one in tasks) and not may_run_code():
            raise code_refused(task)
        window = plan.window if any(one.OUTPUT_TYPE == _ROLLING for one in tasks) else None
        yield Cell(
            suite=name,
            task=task,
            category=settings.category,
            definition={
                "chat": suite.chat,
                "window": window,
                **_definition(settings, task in files, readers.get(task)),
            },
            data_hash=data_hash,
            limit=limit,
            chat=suite.chat,
            metric=settings.metric,
            load=lambda loaded=loaded: loaded,  # type: ignore[misc]
            unit=_UNITS.get(metric),
            window=window,
        )
    if faults:
        raise ConfigError(faults)


def _metric(
    name: str, settings: PublicTask, tasks: Iterable[ConfigurableTask], suite_file: Path
) -> str:
    """lm-eval's metric that is reported: one under which more is better, or a log-likelihood's."""

    def fault(message: str, mend: str) -> ConfigError:
        return ConfigError([Fault(str(suite_file), f"tasks.{name}.metric", message, mend)])

    for task in tasks:
        known = list(task.aggregation())
        metric, _, wanted = (settings.metric or known[0]).partition(",")
        # A name with a column in it is another metric for each question.
        if metric not in known and "{" not in metric and _names_its_metrics(task):
            message = f"lm-eval's task has no metric '{metric}'"
            raise fault(message, f"take one of: {', '.join(known)}")
        filters = [each["name"] for each in task.config.filter_list or []] or ["none"]
        if wanted and wanted not in filters:
            message = f"lm-eval's task has no filter '{wanted}'"
            raise fault(message, f"take one of: {', '.join(filters)}")
        if metric not in _UNITS and task.higher_is_better().get(metric) is False:
            raise fault(f"under '{metric}' less is better", "take another of the task's metrics")
    return metric


def _names_its_metrics(task: ConfigurableTask) -> bool:
    """Whether all metrics are known now; functions name theirs when they score, like pass@1."""
    return task.config.process_results is None and not any(
        callable(each["metric"]) or each.get("hf_evaluate")
        for each in task.config.metric_list or []
    )


def _mixed_units(config: Config, cells: Iterable[Cell]) -> Iterator[Fault]:
    """Log-likelihoods and shares have no mean: a category has one of them."""
    first: dict[str, Cell] = {}
    for cell in cells:
        other = first.setdefault(cell.category, cell)
        if cell.unit != other.unit:
            units = f"'{cell.task}' is in {cell.unit or 'shares'}"
            message = f"{units}, and '{other.task}' of its category in {other.unit or 'shares'}"
            where = str(config.suite_files[cell.suite])
            yield Fault(where, f"tasks.{cell.task}.category", message, "take another category")


def _definition(task: PublicTask, local: bool, reader: Reader | None) -> dict[str, Any]:
    settings = task.model_dump(mode="json", exclude={"limit", "rows"})
    if not local:  # overrides are for local rows
        return {**settings, "data_files": None, "override": {}, "rows": None}
    # What the rows are is in the data's hash.
    return {**settings, "rows": reader and reader.definition}


def _smaller(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
