"""Plans an evaluation: the tasks of a release's suites, checked before any runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

from qpipe.config import BusinessSuite, Config, PublicSuite, PublicTask
from qpipe.errors import ConfigError, Fault
from qpipe.evaluation._model_code import code_refused, may_run_code
from qpipe.evaluation._own import load_scorers
from qpipe.evaluation._quiet import quiet
from qpipe.evaluation._rows import load_business
from qpipe.evaluation._sandbox import LIMITS, require_sandbox
from qpipe.evaluation._scorers import SCORERS_VERSION
from qpipe.model import has_chat_template
from qpipe.records import digest

if TYPE_CHECKING:
    from lm_eval.api.task import ConfigurableTask

__all__ = ["Cell", "evaluation_log", "plan_suites"]


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
    load: Callable[[], Mapping[str, ConfigurableTask]]
    cluster_by: str = "cluster"
    """Prefix of the tag that dependent questions share."""
    runs_code: bool = False
    """Rows are judged by running what the model wrote, in the sandbox."""


def plan_suites(config: Config, variant: str, tokenizer_dir: Path) -> list[Cell]:
    """The cells of all suites, in the release file's order; all is checked and all rows are there.

    Raises:
        ConfigError: a suite, a row or a user's scorer is wrong, or a suite chats with a model
            without a template.
        EnvError: the data cannot be loaded, or a task runs code and that is not allowed or this
            machine has no sandbox for it.
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
            continue
        for task in suite.tasks:
            if task in owner:
                message = f"the suite '{owner[task]}' has this task too"
                faults.append(Fault(str(where), f"tasks.{task}", message, "keep one of them"))
            owner.setdefault(task, name)
    if faults:
        raise ConfigError(faults)
    for cell in (cell for own in business.values() for cell in own if cell.runs_code):
        if not may_run_code():
            raise code_refused(cell.task)
        require_sandbox()
    cells: list[Cell] = []
    for name, suite in config.suites.items():
        if isinstance(suite, PublicSuite):
            cells += _public_cells(config, name, suite, log)
        else:
            cells += business[name]
    return cells


def evaluation_log(config: Config, variant: str) -> Path:
    """Where lm-eval's messages go."""
    return config.workspace.logs / f"evaluate-{variant}.log"


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

        def load(
            task: str = f"{name}-{category}", category: str = category
        ) -> Mapping[str, ConfigurableTask]:
            from qpipe.evaluation._tasks import business_task

            rows = rows_by_category[category]
            return {task: business_task(task, rows, suite.max_tokens, own.scorers)}

        used = {row.scorer for row in rows}
        runs_code = any(own.scorers[scorer].runs_code for scorer in used)
        cells.append(
            Cell(
                suite=name,
                task=f"{name}-{category}",
                category=category,
                definition={
                    "chat": suite.chat,
                    "max_tokens": suite.max_tokens,
                    "cluster_by": suite.cluster_by,
                    "scorers": SCORERS_VERSION,
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


def _public_cells(config: Config, name: str, suite: PublicSuite, log: Path) -> Iterator[Cell]:
    evaluation = config.release.evaluation
    data_dir = config.workspace.root / evaluation.data_dir if evaluation.data_dir else None
    with quiet(log):
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
        with quiet(log):
            tasks = load_public(
                manager, task, settings, data_dir, config.workspace.cache / "datasets"
            )
            limit = _smaller(evaluation.limit, settings.limit)
            data_hash = digest(documents(tasks.values(), limit))
        if any(getattr(one, "UNSAFE_CODE", False) for one in tasks.values()) and not may_run_code():
            raise code_refused(task)
        yield Cell(
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


def _smaller(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
