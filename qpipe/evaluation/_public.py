"""lm-eval's own tasks. Imports lm_eval: import this module inside functions."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import datasets
import httpx
import jinja2
import lm_eval.tasks
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager
from lm_eval.tasks._index import Entry
from lm_eval.tasks._yaml_loader import load_yaml
from lm_eval.tasks.manager import TaskDict

from qpipe.config import PublicTask
from qpipe.errors import ConfigError, EnvError, Fault
from qpipe.evaluation._local import LocalFiles, local_rows
from qpipe.evaluation._model_code import ALLOW_CODE, code_refused

__all__ = [
    "Unavailable",
    "documents",
    "load_public",
    "public_tasks",
    "require_files",
]

# What templates and code of lm-eval's tasks raise over rows of another form.
_MISFITS = (
    jinja2.TemplateError,
    datasets.exceptions.DatasetsError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
_LOG = logging.getLogger("lm_eval")  # goes to the evaluation's log


def public_tasks(names: Iterable[str], tokenizer_dir: Path) -> TaskManager:
    """A manager that knows ``names``; unknown names are absent from its ``task_index``.

    Tasks that make their own rows by length count tokens with the tokenizer in ``tokenizer_dir``.
    """
    folders = {folder for name in names for folder in _folders().get(name, ())}
    return TaskManager(
        include_defaults=False,
        include_path=sorted(folders),
        metadata={"tokenizer": str(tokenizer_dir)},
    )


@cache
def _folders() -> dict[str, set[Path]]:
    """Folders of lm-eval's tasks by each name that a file there has as a task, group or tag."""
    root = Path(lm_eval.tasks.__file__).parent
    line = re.compile(
        r"""^[ -]*(?:["']?(?:task|group|tag)["']?: *)?["']?([^\s"':]+)["']? *$""", re.M
    )
    found: dict[str, set[Path]] = {}
    # Reading all 14,000 files as YAML takes 20 s; looking for names takes one.
    for path in root.rglob("*yaml"):
        folder = root / path.relative_to(root).parts[0]
        for name in line.findall(path.read_text(encoding="utf-8", errors="replace")):
            found.setdefault(name, set()).add(folder)
    return found


def require_files(manager: TaskManager, files: Mapping[str, LocalFiles]) -> None:
    """See that all local rows are there; ``files`` by task.

    Raises:
        EnvError: naming every file that is missing.
    """
    missing: dict[Path, set[str]] = {}
    for name, local in files.items():
        names = {leaf.cfg.get("dataset_name") or "" for leaf in _leaves(manager, name)}
        missing.setdefault(local.folder, set()).update(local.missing(names))
    for folder, paths in missing.items():
        if paths:
            raise EnvError(
                f"{folder} lacks {', '.join(sorted(paths))}",
                mend="bring them there, or correct evaluation.data_dir or the suite's data_files",
            )


class Unavailable(Exception):
    """What a task wants beyond rows (a hub's metric, NLTK's files, a package) is not to be had."""


def load_public(
    manager: TaskManager, name: str, task: PublicTask, files: LocalFiles | None, suite_file: Path
) -> TaskDict:
    """The tasks and groups behind ``name``, over local rows where there are any.

    Raises:
        ConfigError: lm-eval's task cannot use the local rows.
        EnvError: the rows cannot be loaded, or the task runs code that the model wrote and that is
            not allowed.
        Unavailable: the task cannot be measured here, whatever its rows.
    """
    _import_code(manager, name)
    changes: dict[str, Any] = {**task.override} if files else {}
    if task.num_fewshot is not None:
        changes["num_fewshot"] = task.num_fewshot
    if task.metadata:
        changes["metadata"] = task.metadata
    if files is None:
        loaded = _from_hub(manager, name, changes, task)
    else:
        try:
            loaded = _from_files(manager, name, changes, files)
        except _Misfit as error:
            fault = Fault(str(suite_file), f"tasks.{name}.data_files", *error.args)
            raise ConfigError([fault]) from error
    for one in loaded["tasks"].values():
        if one.config.process_docs is not None:
            one.config.process_docs = _once(one.config.process_docs)
        # lm-eval only logs that the hub did not give a metric.
        if not one.config.process_results and None in one._metric_fn_list.values():
            raise Unavailable(f"a metric of '{one.task_name}' cannot be loaded from the hub")
    return loaded


def _once(process: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``process`` of each set of rows, once: some draw at random, and are asked twice for them."""
    made: dict[int, tuple[Any, Any]] = {}

    def processed(rows: Any) -> Any:
        if id(rows) not in made:
            made[id(rows)] = (rows, process(rows))  # kept, the rows keep their id
        return made[id(rows)][1]

    return processed


def _built(manager: TaskManager, name: str, changes: dict[str, Any]) -> TaskDict:
    """A task, or all of a group or tag, with ``changes`` laid over lm-eval's own keys."""
    # What the manager's public methods pass on to a group's tasks overwrites their names.
    index = manager.task_index
    built = manager._factory.build(index[name], overrides=changes, registry=index)
    return manager.load(built if isinstance(built, list) else [built])


def _from_hub(
    manager: TaskManager, name: str, changes: dict[str, Any], task: PublicTask
) -> TaskDict:
    try:
        return _built(manager, name, changes)
    except (OSError, httpx.HTTPError, datasets.exceptions.DatasetsError) as error:
        offline = "set evaluation.data_dir to a folder with local copies"
        if task.data_files is None:
            offline = (
                f"take '{name}' out of the suite, or give it data_files and set evaluation.data_dir"
            )
        raise EnvError(
            f"the rows of '{name}' cannot be loaded from the hub: {_first_line(error)}",
            mend=f"connect to the network, or {offline}",
        ) from error


class _Misfit(Exception):
    """Local rows and lm-eval's task do not fit: what is wrong, and the mend."""


def _from_files(
    manager: TaskManager, name: str, changes: dict[str, Any], files: LocalFiles
) -> TaskDict:
    try:
        with local_rows(files):
            loaded = _built(manager, name, changes)
    except _MISFITS as error:
        _LOG.info("'%s' over local rows", name, exc_info=True)
        raise _Misfit(
            f"lm-eval's task cannot use these rows: {_first_line(error)}",
            "name a function under `rows` that gives the columns the set has on the hub",
        ) from error
    for task in loaded["tasks"].values():
        shots = task.config.num_fewshot
        if shots and not _has_pool(task):
            raise _Misfit(
                f"'{task.task_name}' has no split to draw {shots} examples from",
                "give `data_files` a split `train`, or set `num_fewshot: 0`",
            )
    return loaded


def _has_pool(task: ConfigurableTask) -> bool:
    """Without one lm-eval draws examples from the questions, a question itself among them."""
    config, fewshot = task.config, task.fewshot_cfg
    spare = config.training_split or (config.test_split and config.validation_split)
    return bool(fewshot.split or fewshot.samples or spare)


def _import_code(manager: TaskManager, name: str) -> None:
    """Run the modules of the tasks behind ``name``, which may fetch more than rows."""
    paths = {entry.yaml_path for entry in _leaves(manager, name)}
    folders = {path.parent for path in paths}
    nltk = any(
        "nltk" in file.read_text(encoding="utf-8")
        for folder in folders
        for file in folder.glob("*.py")
    )
    try:
        with redirect_stdout(io.StringIO()), _outspoken_nltk() if nltk else nullcontext():
            for path in sorted(paths):
                load_yaml(path, resolve_func=True)
    except (ImportError, OSError, LookupError, httpx.HTTPError) as error:
        reason = f"its code needs what cannot be had here: {_first_line(error)}"
        raise Unavailable(reason) from error
    except ValueError as error:
        # The metric asks, once it is loaded.
        if ALLOW_CODE not in str(error):
            raise
        raise code_refused(name) from error


def _leaves(manager: TaskManager, name: str) -> Iterator[Entry]:
    """The index's entries of the tasks behind a task, group or tag."""
    entry = manager.task_index[name]
    if entry.kind.name == "TAG":
        children: list[Any] = sorted(entry.tags)
    elif entry.kind.name == "GROUP":
        children = entry.cfg["task"]
    else:
        yield entry
        return
    for child in children:
        member = child if isinstance(child, str) else child.get("group", child.get("task"))
        if isinstance(member, str) and member in manager.task_index:
            yield from _leaves(manager, member)


@contextmanager
def _outspoken_nltk() -> Iterator[None]:
    """NLTK only prints that a download failed; the file would then be missed when it is used."""
    import nltk

    download = nltk.download

    def or_fail(name: str, **settings: Any) -> Any:
        settings |= {"quiet": True, "raise_on_error": True, "print_error_to": io.StringIO()}
        try:
            return download(name, **settings)
        except ValueError as error:
            raise LookupError(f"NLTK's {name}: {error}") from error

    nltk.download = or_fail
    try:
        yield
    finally:
        nltk.download = download


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]:.300}"


def documents(tasks: Iterable[ConfigurableTask], limit: int | None) -> list[str]:
    """What decides the prompts, as JSON texts: the questions and the few-shot pool."""
    found: list[Any] = []
    for task in tasks:
        found += [doc for _, doc in task.doc_iterator(rank=0, limit=limit, world_size=1)]
        if task.config.num_fewshot:
            found += list(task.fewshot_docs() or [])
    return [json.dumps(doc, sort_keys=True, ensure_ascii=False, default=str) for doc in found]
