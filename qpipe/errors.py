"""The one tree of errors a user can meet, each with its exit code.

Exit codes: 1 a fault of qpipe itself, 2 usage, 3 config or data, 4 environment or machine,
5 a worker or the engine died, 6 a measurement is invalid, 7 the gate says no, 130 Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ConfigError",
    "DamagedInput",
    "EngineError",
    "EnvError",
    "Fault",
    "GateError",
    "InvalidMeasurement",
    "MissingInput",
    "QpipeError",
    "WorkerError",
]


class QpipeError(Exception):
    """What went wrong and, in ``mend``, what the user can do about it."""

    exit_code = 1

    def __init__(self, message: str, mend: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend

    def __str__(self) -> str:
        return self.message if self.mend is None else f"{self.message}\n  mend: {self.mend}"


@dataclass(frozen=True)
class Fault:
    """One fault in a file a user wrote: where it is, what it is, how to mend it."""

    file: str
    key: str
    message: str
    mend: str

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.message}\n  mend: {self.mend}"


class ConfigError(QpipeError):
    """Every fault found in the release file and the files it names."""

    exit_code = 3

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class MissingInput(QpipeError):
    """A stage needs a file, or an entry in one, that an earlier stage writes."""

    exit_code = 3

    def __init__(self, what: Path | str, command: str) -> None:
        super().__init__(f"{what} is missing", mend=f"run `{command}` first")


class DamagedInput(QpipeError):
    """A file that an earlier stage wrote cannot be read."""

    exit_code = 3

    def __init__(self, path: Path, command: str, problem: str) -> None:
        super().__init__(f"{path} is damaged: {problem}", mend=f"run `{command}` again")


class EnvError(QpipeError):
    """The machine, an environment, the network or the disk does not allow the work."""

    exit_code = 4


class WorkerError(QpipeError):
    """A worker process died; carries its log's last lines."""

    exit_code = 5


class EngineError(QpipeError):
    """The inference server did not start, died, or refused a request."""

    exit_code = 5


class InvalidMeasurement(QpipeError):
    """A measurement that must not become a number."""

    exit_code = 6


class GateError(QpipeError):
    """The gate was enforced and a variant is not GO."""

    exit_code = 7
