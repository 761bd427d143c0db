"""A suite's own functions, in Python files of the user: scorers, and readers of public sets."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from qpipe.config import BusinessSuite, PublicSuite
from qpipe.errors import ConfigError, Fault
from qpipe.evaluation._rows import Row
from qpipe.evaluation._scorers import SCORERS, Scorer

__all__ = ["OwnScorers", "Reader", "load_readers", "load_scorers"]


@dataclass(frozen=True)
class OwnScorers:
    """All scorers that a suite's rows may name."""

    scorers: Mapping[str, Scorer]
    """The built-in ones and the suite's own."""
    definitions: Mapping[str, Mapping[str, str]]
    """Of the suite's own: the function's name and the hash of its file."""


@dataclass(frozen=True)
class _Function:
    """One function of the user."""

    call: Callable[..., Any]
    name: str
    where: str
    """Its file, as shown."""
    file_hash: str

    @property
    def definition(self) -> dict[str, str]:
        return {"function": self.name, "file": self.file_hash}

    def failed(self, message: str, mend: str) -> ConfigError:
        """The error of a call that went wrong."""
        return ConfigError([Fault(self.where, self.name, message, mend)])


class Reader:
    """A user's function that reads local rows of a public set."""

    def __init__(self, function: _Function) -> None:
        self._function = function
        self.definition = function.definition
        """The function's name and the hash of its file."""

    def __call__(self, path: Path, name: str) -> list[dict[str, Any]]:
        """The rows in ``path`` for the lm-eval task whose ``dataset_name`` is ``name``.

        Raises:
            ConfigError: the function fails, or gives anything but dicts.
        """
        mend = "correct the function, or the file that it reads"
        try:
            rows = list(self._function.call(path, name))
        except Exception as error:
            message = f"it failed on {path} for '{name}': {type(error).__name__}: {error}"
            raise self._function.failed(message, mend) from error
        strange = next((row for row in rows if not isinstance(row, dict)), None)
        if strange is not None:
            raise self._function.failed(f"it gave {strange!r:.100}, no dict, of {path}", mend)
        return rows


def load_scorers(suite_file: Path, suite: BusinessSuite, root: Path) -> OwnScorers:
    """Load the functions that a suite names under ``scorers``; their files are run.

    Raises:
        ConfigError: with every function that cannot be had.
    """
    where = _shown(suite_file, root)
    faults = [
        Fault(where, f"scorers.{name}", f"'{name}' is a built-in scorer", "take another name")
        for name in suite.scorers
        if name in SCORERS
    ]
    places = {name: place for name, place in suite.scorers.items() if name not in SCORERS}
    signature = "(row: dict, answer: str) -> float"
    own = _load(suite_file, root, places, "scorers.{}", ({}, ""), signature, faults)
    scorers = {name: Scorer(lambda _: (), _judge(function)) for name, function in own.items()}
    definitions = {name: function.definition for name, function in own.items()}
    return OwnScorers({**SCORERS, **scorers}, definitions)


def load_readers(suite_file: Path, suite: PublicSuite, root: Path) -> dict[str, Reader]:
    """Load the functions that a suite's tasks name under ``rows``, by task; their files are run.

    Raises:
        ConfigError: with every function that cannot be had.
    """
    places = {name: task.rows for name, task in suite.tasks.items() if task.rows}
    signature = "(path: Path, name: str) -> Iterable[dict]"
    own = _load(suite_file, root, places, "tasks.{}.rows", (suite_file, ""), signature, [])
    return {name: Reader(function) for name, function in own.items()}


def _load(
    suite_file: Path,
    root: Path,
    places: Mapping[str, str],
    key: str,
    arguments: tuple[Any, ...],
    signature: str,
    faults: list[Fault],
) -> dict[str, _Function]:
    """The functions ``FILE.py:FUNCTION`` by name; each can take ``arguments``."""
    own: dict[str, _Function] = {}
    loaded: dict[Path, tuple[ModuleType, str]] = {}
    for name, place in places.items():
        file, _, function = place.partition(":")
        path = suite_file.parent / file
        where = _shown(path, root)
        try:
            if path not in loaded:
                loaded[path] = _module(path)
            module, file_hash = loaded[path]
            found = _function(module, function, arguments)
        except Exception as error:  # whatever the user's file raises
            message = f"'{place}' cannot be loaded: {type(error).__name__}: {error}"
            mend = f"write `def {function}{signature}` in {where}"
            faults.append(Fault(_shown(suite_file, root), key.format(name), message, mend))
            continue
        own[name] = _Function(found, function, where, file_hash)
    if faults:
        raise ConfigError(faults)
    return own


def _module(path: Path) -> tuple[ModuleType, str]:
    """The file as a module, and the hash of the bytes that it was compiled from."""
    source = path.read_bytes()
    name = f"qpipe_own_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module, hashlib.sha256(source).hexdigest()


def _function(module: ModuleType, name: str, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if not callable(found):
        raise LookupError(f"there is no function '{name}'")
    inspect.signature(found).bind(*arguments)
    return found  # type: ignore[no-any-return]


def _judge(function: _Function) -> Callable[[Row, str], float]:
    mend = "correct the function; it gives a number from 0 to 1 for every row and answer"

    def judge(row: Row, answer: str) -> float:
        try:
            value = function.call(row.model_dump(mode="json", exclude_unset=True), str(answer))
        except Exception as error:
            message = f"it failed on row '{row.id}': {type(error).__name__}: {error}"
            raise function.failed(message, mend) from error
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise function.failed(f"it gave {value!r} on row '{row.id}'", mend)
        return float(value)

    return judge


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
