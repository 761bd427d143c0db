"""Local copies of public sets, which lm-eval's tasks read in place of the hub.

Imports lm_eval: import this module inside functions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from lm_eval.api.task import ConfigurableTask

from qpipe.config import READABLE, PublicSuite
from qpipe.errors import EnvError
from qpipe.evaluation._own import Reader

__all__ = ["LocalFiles", "local_files", "local_rows"]

_FORMATS = dict(zip(READABLE, ("json", "json", "csv", "csv", "parquet"), strict=True))
_SPLITS = ("training_split", "validation_split", "test_split")


@dataclass(frozen=True)
class LocalFiles:
    """The files of one entry of a suite, which may be a group of lm-eval tasks."""

    folder: Path
    files: str | Mapping[str, str]
    """One file, or one a split; ``{name}`` in it stands for a task's ``dataset_name``."""
    reader: Reader | None
    """The user's function that reads them; ``None``: they are read by suffix."""
    cache: Path
    """Folder for what ``datasets`` makes of files."""

    def missing(self, names: Iterable[str]) -> set[str]:
        """Files of the tasks with these ``dataset_name`` that are not there, from the folder."""
        paths = {path for name in names for path in self._paths(name, "").values()}
        return {os.path.relpath(path, self.folder) for path in paths if not path.is_file()}

    def rows(self, name: str, split: str) -> dict[str, Any]:
        """Rows by split, of the task whose ``dataset_name`` is ``name``; one file is ``split``.

        Raises:
            ConfigError: the user's function fails.
            EnvError: a file has no rows for the task.
        """
        found = {}
        for key, path in self._paths(name, split).items():
            found[key] = self._read(path, name)
            if not len(found[key]):
                mend = "bring a file that has, or take the task out of its suite"
                raise EnvError(f"{path} has no rows of '{name}'", mend)
        return found

    def _paths(self, name: str, split: str) -> dict[str, Path]:
        files = {split: self.files} if isinstance(self.files, str) else self.files
        return {key: self.folder / file.replace("{name}", name) for key, file in files.items()}

    def _read(self, path: Path, name: str) -> Any:
        if self.reader is not None:
            return datasets.Dataset.from_list(self.reader(path, name))
        tabs = {"sep": "\t"} if path.suffix == ".tsv" else {}
        return datasets.load_dataset(
            _FORMATS[path.suffix],
            data_files=str(path),
            split="train",
            cache_dir=str(self.cache),
            **tabs,
        )


def local_files(
    suite: PublicSuite, folder: Path, readers: Mapping[str, Reader], cache: Path
) -> dict[str, LocalFiles]:
    """By task, of those that have some."""
    return {
        name: LocalFiles(folder, task.data_files, readers.get(name), cache)
        for name, task in suite.tasks.items()
        if task.data_files is not None
    }


@contextmanager
def local_rows(files: LocalFiles) -> Iterator[None]:
    """Tasks that lm-eval makes inside take their rows from ``files``; the rest stays lm-eval's.

    Splits that ``files`` does not have are none of the task's any more.
    """
    from_hub = ConfigurableTask.download

    def from_files(task: ConfigurableTask, *_: Any, **__: Any) -> None:
        config = task.config
        asked = config.test_split or config.validation_split or "test"
        task.dataset = files.rows(config.dataset_name or "", asked)
        for split in _SPLITS:
            if getattr(config, split) not in task.dataset:
                setattr(config, split, None)
        if task.fewshot_cfg.split not in task.dataset:
            task.fewshot_cfg.split = None

    ConfigurableTask.download = from_files
    try:
        yield
    finally:
        ConfigurableTask.download = from_hub
