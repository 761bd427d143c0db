"""lm-eval tasks out of suites. Imports lm_eval: import this module inside functions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import httpx
import lm_eval.tasks
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager

from qpipe.config import PublicTask
from qpipe.errors import EnvError
from qpipe.evaluation._model_code import ALLOW_CODE, code_refused
from qpipe.evaluation._rows import Row
from qpipe.evaluation._scorers import Scorer, score

__all__ = ["business_task", "documents", "likeliest", "load_public", "public_tasks"]


class BusinessTask(ConfigurableTask):  # type: ignore[misc]
    """Business rows as one lm-eval task; generation and choice rows may be mixed."""

    rows: Mapping[str, Row]
    """By the text that stands for the row in lm-eval's documents."""

    def fewshot_context(
        self,
        doc: dict[str, str],
        num_fewshot: int,
        apply_chat_template: bool = False,
        chat_template: Callable[..., str] | None = None,
        **_: Any,
    ) -> str:
        """The row's prompt, through the chat template where the suite says so."""
        row = self.rows[doc["row"]]
        if apply_chat_template and chat_template:
            return chat_template(row.conversation)
        return row.text

    def construct_requests(self, doc: dict[str, str], ctx: str, **kwargs: Any) -> list[Instance]:
        """One generation, or one likelihood a choice."""
        row = self.rows[doc["row"]]
        arguments: list[tuple[str, Any]]
        chat, _ = kwargs.pop("apply_chat_template", False), kwargs.pop("chat_template", None)
        if row.choices is not None:
            # A rendered chat ends in white space: the answer follows without a space.
            space = "" if chat or ctx[-1:].isspace() else " "
            arguments = [(ctx, f"{space}{choice}") for choice in row.choices]
            kind = "loglikelihood"
        else:
            settings = self.config.generation_kwargs
            generation = {
                **settings,
                "max_gen_toks": row.max_tokens or settings["max_gen_toks"],
                "until": list(row.stop),
            }
            arguments = [(ctx, generation)]
            kind = "generate_until"
        return [
            Instance(request_type=kind, doc=doc, arguments=argument, idx=index, **kwargs)
            for index, argument in enumerate(arguments)
        ]


def business_task(
    name: str, rows: Sequence[Row], max_tokens: int, scorers: Mapping[str, Scorer]
) -> BusinessTask:
    """The lm-eval task ``name`` over ``rows``, judged by ``scorers``."""
    by_text = {row.model_dump_json(exclude_none=True): row for row in rows}

    def process_results(doc: dict[str, str], results: list[Any]) -> dict[str, float]:
        row = by_text[doc["row"]]
        answer = results[0]
        if row.choices is not None:
            answer = likeliest([value for value, _ in results], row.choices)
        return {"score": score(row, answer, scorers)}

    task = BusinessTask(
        config={
            "task": name,
            "custom_dataset": lambda **_: {
                "test": datasets.Dataset.from_list([{"row": text} for text in by_text])
            },
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": lambda doc: by_text[doc["row"]].text,
            "doc_to_target": lambda doc: by_text[doc["row"]].target,
            "generation_kwargs": {
                "max_gen_toks": max_tokens,
                "temperature": 0.0,
                "do_sample": False,
                "until": [],
            },
            "process_results": process_results,
            "metric_list": [{"metric": "score", "aggregation": "mean", "higher_is_better": True}],
            "num_fewshot": 0,
        }
    )
    task.rows = by_text
    return task


def likeliest(log_likelihoods: Iterable[float], choices: Sequence[str]) -> str:
    """The choice likeliest by byte, so that long labels stand a chance."""
    pairs = zip(log_likelihoods, choices, strict=True)
    return max(pairs, key=lambda pair: pair[0] / len(pair[1].encode()))[1]


def public_tasks(names: Iterable[str]) -> TaskManager:
    """A manager that knows ``names``; unknown names are absent from its ``all_tasks``."""
    root = Path(lm_eval.tasks.__file__).parent
    known = "|".join(re.escape(name) for name in names)
    line = re.compile(
        rf"""^[ -]*(?:["']?(?:task|group|tag)["']?: *)?["']?(?:{known})["']? *$""", re.M
    )
    # Reading all 14,000 task files as YAML takes 20 s; looking for the names takes one.
    folders = {
        root / path.relative_to(root).parts[0]
        for path in root.rglob("*.yaml")
        if line.search(path.read_text(encoding="utf-8", errors="replace"))
    }
    return TaskManager(include_defaults=False, include_path=sorted(folders))


def load_public(
    manager: TaskManager, name: str, task: PublicTask, data_dir: Path | None, cache: Path
) -> dict[str, ConfigurableTask]:
    """The tasks behind ``name`` (several for a group), over local rows where there are any.

    Raises:
        EnvError: the rows cannot be loaded.
    """
    changes: dict[str, Any] = {}
    if task.num_fewshot is not None:
        changes["num_fewshot"] = task.num_fewshot
    if data_dir is not None and task.data_files is not None:
        changes |= _local_rows(task.data_files, data_dir, cache)
        changes |= task.override
    entry = manager.task_index[name]
    kind = entry.kind.name
    if kind == "TAG":
        members = [{"task": member, **changes} for member in sorted(entry.tags)]
    else:
        members = [{"group" if kind == "GROUP" else "task": name, **changes}]
    try:
        # Only inside a group does lm-eval lay changes over its own task.
        loaded = manager.load([{"group": f"qpipe-{name}", "task": members}])
    except (OSError, httpx.HTTPError, datasets.exceptions.DatasetsError) as error:
        raise _unreachable(name, task, error) from error
    except ValueError as error:
        # The metric is loaded, and asks, where the task's module is imported.
        if ALLOW_CODE not in str(error):
            raise
        raise code_refused(name) from error
    except LookupError as error:
        if type(error) is not LookupError:  # what NLTK raises for its own missing files
            raise
        raise _unreachable(name, task, error) from error
    tasks: dict[str, ConfigurableTask] = loaded["tasks"]
    return tasks


def _local_rows(files: str | dict[str, str], data_dir: Path, cache: Path) -> dict[str, Any]:
    by_split = {"test": files} if isinstance(files, str) else files
    missing = [path for path in by_split.values() if not (data_dir / path).is_file()]
    if missing:
        raise EnvError(
            f"{data_dir} lacks {', '.join(missing)}",
            mend="correct evaluation.data_dir or the task's data_files",
        )
    paths = {split: str(data_dir / path) for split, path in by_split.items()}
    names = {"training_split": "train", "validation_split": "validation", "test_split": "test"}
    splits = {key: name if name in paths else None for key, name in names.items()}
    fewshot = next((name for name in ("train", "validation") if name in paths), None)
    return {
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": paths, "cache_dir": str(cache)},
        **splits,
        "fewshot_split": fewshot,
    }


def _unreachable(name: str, task: PublicTask, error: Exception) -> EnvError:
    offline = "set evaluation.data_dir to a folder with local copies"
    if task.data_files is None:
        offline = (
            f"take '{name}' out of the suite, or give it data_files and set evaluation.data_dir"
        )
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return EnvError(
        f"the rows of '{name}' cannot be loaded from the hub: {reason:.300}",
        mend=f"connect to the network, or {offline}",
    )


def documents(tasks: Iterable[ConfigurableTask], limit: int | None) -> list[str]:
    """What decides the prompts, as JSON texts: the questions and the few-shot pool."""
    found: list[Any] = []
    for task in tasks:
        found += [doc for _, doc in task.doc_iterator(rank=0, limit=limit, world_size=1)]
        if task.config.num_fewshot:
            found += list(task.fewshot_docs() or [])
    return [json.dumps(doc, sort_keys=True, ensure_ascii=False, default=str) for doc in found]
