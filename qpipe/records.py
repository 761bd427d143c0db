"""Files that stages meet in: JSON with a schema version, written beside and then renamed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from qpipe.errors import DamagedInput, EnvError, MissingInput

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "SCHEMA_VERSION",
    "digest",
    "hash_file",
    "hash_matching",
    "read_json",
    "read_table",
    "require",
    "staged_dir",
    "write_json",
    "write_text",
]

SCHEMA_VERSION = 2


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write ``record`` with its ``schema_version``; readers see the old file or all of the new."""
    body = {"schema_version": SCHEMA_VERSION, **record}
    write_text(path, json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write beside ``path``, then rename over it.

    Raises:
        EnvError: the disk is full or the folder may not be written.
    """
    with _disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def read_json(path: Path, made_by: str) -> dict[str, Any]:
    """Read a record that ``made_by`` (a command) writes.

    Raises:
        MissingInput: the file is not there.
        DamagedInput: it is not JSON, or of another schema version.
    """
    if not path.exists():
        raise MissingInput(path, made_by)
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, IsADirectoryError) as error:
        raise DamagedInput(path, made_by, f"not JSON ({error})") from error
    if not isinstance(record, dict):
        raise DamagedInput(path, made_by, "no JSON object")
    if record.get("schema_version") != SCHEMA_VERSION:
        found = record.get("schema_version")
        raise DamagedInput(path, made_by, f"schema version {found}, not {SCHEMA_VERSION}")
    return record


def read_table(path: Path, made_by: str, columns: list[str] | None = None) -> pd.DataFrame:
    """Read a Parquet file that ``made_by`` (a command) writes; ``columns`` of it only.

    Raises:
        MissingInput: the file is not there.
        DamagedInput: it is no Parquet file, or lacks a column.
    """
    import pandas as pd

    if not path.exists():
        raise MissingInput(path, made_by)
    try:
        return pd.read_parquet(path, columns=columns)
    except (ValueError, OSError) as error:  # pyarrow's own errors are of these kinds
        raise DamagedInput(path, made_by, str(error).splitlines()[0]) from error


def require(entries: Mapping[str, Any], names: Iterable[str], path: Path, made_by: str) -> None:
    """Check that a record has an entry of every name: the release may have grown since.

    Raises:
        MissingInput: naming the first that it lacks.
    """
    for name in names:
        if name not in entries:
            raise MissingInput(f"'{name}' in {path}", made_by)


@contextlib.contextmanager
def staged_dir(target: Path) -> Iterator[Path]:
    """A folder beside ``target`` that takes its place on success and vanishes on failure.

    Raises:
        EnvError: the disk is full, or a file or folder that the block needs is not accessible.
    """
    with _disk_errors(target):
        target = target.resolve()  # a link to a larger disk stays one
        target.parent.mkdir(parents=True, exist_ok=True)
        for stale in target.parent.glob(f".{target.name}.staged-*"):
            if not _belongs_to_another(stale):
                shutil.rmtree(stale, ignore_errors=True)
        staged = _beside(target)
        try:
            yield staged
            staged.chmod(0o755)
            _swap(staged, target)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise


def _beside(target: Path) -> Path:
    prefix = f".{target.name}.staged-{os.getpid()}-"
    return Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix))


def _belongs_to_another(staged: Path) -> bool:
    """Whether a process that still runs made the folder."""
    pid = staged.name.rpartition(".staged-")[2].partition("-")[0]
    return pid.isdigit() and int(pid) != os.getpid() and psutil.pid_exists(int(pid))


def _swap(staged: Path, target: Path) -> None:
    """Two renames: no moment, however long deleting takes, shows half a folder."""
    if not target.exists():
        staged.replace(target)
        return
    old = _beside(target)
    target.replace(old)
    try:
        staged.replace(target)
    except BaseException:
        old.replace(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        said = error.strerror
        if error.errno == errno.EACCES:
            # What was refused need not be `path`: a block also reads files and starts programs.
            message = f"no access to {error.filename or path}: {said}"
            mend = "give yourself the rights on it"
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            message, mend = f"cannot write {path}: {said}", "free disk space"
        elif error.errno == errno.EROFS:
            message, mend = f"cannot write {path}: {said}", "take a folder that can be written"
        else:
            raise
        raise EnvError(message, mend=f"{mend}, then run the command again") from error


def digest(*parts: Any) -> str:
    """SHA-256 (hex) of JSON-able parts in canonical form."""
    canonical = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def hash_matching(folder: Path, *patterns: str) -> dict[str, str]:
    """SHA-256 (hex) by name of the files in ``folder`` that match any of ``patterns``."""
    paths = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    return {path.name: hash_file(path) for path in paths}


def hash_file(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
