"""``calib/mix.yaml`` and the texts it names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from qpipe.config import load_yaml
from qpipe.config._base import Model, Name
from qpipe.errors import ConfigError, Fault
from qpipe.jsonl import encoding_problem, read_jsonl

__all__ = ["Document", "Message", "Mix", "Source", "load_mix", "read_mix"]

ROLES = ("system", "user", "assistant", "tool")

Message = dict[str, Any]


class Source(Model):
    """One file of texts of one kind."""

    file: str
    """Path relative to the mix file."""
    format: Literal["text", "jsonl", "messages"]
    """``text``: documents parted by lines ``---``; ``jsonl``: one text a row; ``messages``: one
    conversation a row, put through the model's chat template."""
    category: Name
    """What the texts stand for, as evaluation suites name it."""
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Share of the rows, relative to the other sources' weights."""
    field: str | None = None
    """Key of the row that is read; ``text`` for jsonl and ``messages`` for messages when absent."""

    @model_validator(mode="after")
    def _field_goes_with_rows(self) -> Source:
        if self.format == "text" and self.field is not None:
            raise ValueError("field goes with format jsonl or messages, and only with them")
        return self


class Mix(Model):
    """What calibration rows are drawn from."""

    sources: dict[Name, Source] = Field(min_length=1)
    """By name; the name is written on every row."""


@dataclass(frozen=True)
class Document:
    """One text or conversation and where it stands."""

    where: str
    content: str | list[Message]


def load_mix(path: Path, root: Path) -> Mix:
    """Read a mix file and check every text it names.

    Raises:
        ConfigError: with every fault of the mix file, or every fault of its sources.
    """
    return read_mix(path, root)[0]


def read_mix(path: Path, root: Path) -> tuple[Mix, dict[str, list[Document]]]:
    """The mix and each source's documents, in the order of the file.

    Raises:
        ConfigError: as :func:`load_mix`.
    """
    mix = load_yaml(path, root, Mix)
    faults: list[Fault] = []
    documents: dict[str, list[Document]] = {}
    mix_name = shown(path, root)
    for name, source in mix.sources.items():
        file = path.parent / source.file
        key = f"sources.{name}.file"
        if not file.is_file():
            message = f"{source.file} does not exist or is no file"
            mend = f"create it, or correct the path (it starts at {shown(path.parent, root)}/)"
            faults.append(Fault(mix_name, key, message, mend))
            continue
        before = len(faults)
        documents[name] = READERS[source.format](file, shown(file, root), source, faults)
        if not documents[name] and len(faults) == before:
            mend = "put text into the file or take the source out of the mix"
            faults.append(Fault(mix_name, key, f"{source.file} is empty", mend))
    if faults:
        raise ConfigError(faults)
    return mix, documents


def shown(path: Path, root: Path) -> str:
    """A path as faults and records name it: relative to the workspace when it lies there."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _read_text(path: Path, where: str, source: Source, faults: list[Fault]) -> list[Document]:
    data = path.read_bytes()
    if problem := encoding_problem(data):
        faults.append(Fault(where, "text", *problem))
        return []
    text = data.decode("utf-8-sig").replace("\r\n", "\n")
    parts = re.split(r"^---[ \t]*$", text, flags=re.MULTILINE)
    return [Document(where, part.strip("\n")) for part in parts if part.strip()]


def _read_rows(path: Path, where: str, source: Source, faults: list[Fault]) -> list[Document]:
    field = source.field or "text"
    documents: list[Document] = []
    for line, row in read_jsonl(path, where, faults):
        text = row.get(field)
        if isinstance(text, str) and text.strip():
            documents.append(Document(f"{where}:{line}", text))
        else:
            message = "the row has no text here" if field in row else "the row lacks this key"
            mend = f"give the row a non-empty text '{field}', or name its key as the source's field"
            faults.append(Fault(f"{where}:{line}", field, message, mend))
    return documents


def _read_messages(path: Path, where: str, source: Source, faults: list[Fault]) -> list[Document]:
    field = source.field or "messages"
    documents: list[Document] = []
    for line, row in read_jsonl(path, where, faults):
        problem = _conversation_problem(row.get(field))
        if problem is None:
            documents.append(Document(f"{where}:{line}", row[field]))
        else:
            mend = 'write [{"role": "user", "content": "…"}, {"role": "assistant", …}]'
            faults.append(Fault(f"{where}:{line}", field, problem, mend))
    return documents


def _conversation_problem(messages: Any) -> str | None:
    if not isinstance(messages, list) or not messages:
        return "no list of messages"
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            return f"message {index} is no object"
        role = message.get("role")
        if role not in ROLES:
            return f"message {index} has role {role!r}; known: {', '.join(ROLES)}"
        if role == "system" and index > 0:
            return f"message {index} has role 'system', which only the first may have"
        content = message.get("content")
        if not isinstance(content, str) or not content.strip():
            return f"message {index} has no text in 'content'"
    return None


Reader = Callable[[Path, str, Source, list[Fault]], list[Document]]
READERS: dict[str, Reader] = {"text": _read_text, "jsonl": _read_rows, "messages": _read_messages}
