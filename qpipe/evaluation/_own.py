"""A suite's own scorers: functions in Python files of the user."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from qpipe.config import BusinessSuite
from qpipe.errors import ConfigError, Fault
from qpipe.evaluation._rows import Row
from qpipe.evaluation._scorers import SCORERS, Scorer

__all__ = ["OwnScorers", "load_scorers"]


@dataclass(frozen=True)
class OwnScorers:
    """All scorers that a suite's rows may name."""

    scorers: Mapping[str, Scorer]
    """The built-in ones and the suite's own."""
    definitions: Mapping[str, Mapping[str, str]]
    """Of the suite's own: the function's name and the hash of its file."""


def load_scorers(suite_file: Path, suite: BusinessSuite, root: Path) -> OwnScorers:
    """Load the functions that a suite names under ``scorers``; their files are run.

    Raises:
        ConfigError: with every function that cannot be had.
    """
    faults: list[Fault] = []
    own: dict[str, Scorer] = {}
    definitions: dict[str, dict[str, str]] = {}
    loaded: dict[Path, tuple[ModuleType, str]] = {}
    for name, place in suite.scorers.items():
        file, _, function = place.partition(":")
        path = suite_file.parent / file
        where, key = _shown(path, root), f"scorers.{name}"
        if name in SCORERS:
            message = f"'{name}' is a built-in scorer"
            faults.append(Fault(_shown(suite_file, root), key, message, "take another name"))
            continue
        try:
            if path not in loaded:
                loaded[path] = _module(path)
            module, file_hash = loaded[path]
            found = _function(module, function)
        except Exception as error:  # whatever the user's file raises
            message = f"'{place}' cannot be loaded: {type(error).__name__}: {error}"
            mend = f"write `def {function}(row: dict, answer: str) -> float` in {where}"
            faults.append(Fault(_shown(suite_file, root), key, message, mend))
            continue
        own[name] = Scorer(lambda _: (), _judge(found, where, function))
        definitions[name] = {"function": function, "file": file_hash}
    if faults:
        raise ConfigError(faults)
    return OwnScorers({**SCORERS, **own}, definitions)


def _module(path: Path) -> tuple[ModuleType, str]:
    """The file as a module, and the hash of the bytes that it was compiled from."""
    source = path.read_bytes()
    name = f"qpipe_scorers_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module, hashlib.sha256(source).hexdigest()


def _function(module: ModuleType, name: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if not callable(found):
        raise LookupError(f"there is no function '{name}'")
    inspect.signature(found).bind({}, "")
    return found  # type: ignore[no-any-return]


def _judge(function: Callable[..., Any], where: str, name: str) -> Callable[[Row, str], float]:
    def judge(row: Row, answer: str) -> float:
        try:
            value = function(row.model_dump(mode="json", exclude_unset=True), str(answer))
        except Exception as error:
            message = f"it failed on row '{row.id}': {type(error).__name__}: {error}"
            raise _failed(message) from error
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise _failed(f"it gave {value!r} on row '{row.id}'")
        return float(value)

    def _failed(message: str) -> ConfigError:
        mend = "correct the function; it gives a number from 0 to 1 for every row and answer"
        return ConfigError([Fault(where, name, message, mend)])

    return judge


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
