"""Rows of business suites, read with all their faults."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from qpipe.config import BusinessSuite
from qpipe.errors import ConfigError, Fault
from qpipe.jsonl import read_jsonl

__all__ = ["Message", "Row", "load_business", "normalise"]

_EDGES = " \t\n.,;:!?。，；：！？'\"“”‘’`*"
_LARGEST = 1e15  # whole numbers beyond are not told apart as floats

Text = Annotated[str, Field(min_length=1)]
Scorer = Literal["exact", "numeric", "contains", "choice", "json_fields", "regex"]


class Message(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str


class Row(BaseModel):
    """One question of a business suite."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    id: Text
    """Unique in the suite."""
    category: Text
    """The category whose file holds the row."""
    prompt: Text | None = None
    """The question; or ``messages``."""
    messages: list[Message] | None = Field(default=None, min_length=1)
    """A conversation that ends with the question."""
    reference: Any
    """The right answer in the form the scorer takes."""
    scorer: Scorer
    """How the answer is judged."""
    choices: list[Text] | None = Field(default=None, min_length=2)
    """For ``choice``: the answers whose likelihoods are compared."""
    tolerance: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """For ``numeric``: largest difference that is still right."""
    tags: list[str] = Field(default_factory=list)
    """Free words to sort rows by."""
    level: int = Field(ge=1, le=4)
    """1 trivial … 4 hard."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Longest answer in tokens; the suite's when absent."""
    stop: list[Text] = Field(default_factory=list)
    """Texts that end the answer."""

    @model_validator(mode="after")
    def _parts_fit(self) -> Row:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("a row has either 'prompt' or 'messages'")
        if (self.scorer == "choice") != (self.choices is not None):
            raise ValueError("'choices' goes with scorer 'choice', and only with it")
        if self.reference in (None, "", {}, []):
            raise ValueError("the reference is empty")
        if problem := _REFERENCES[self.scorer](self):
            raise ValueError(problem)
        return self

    @property
    def conversation(self) -> list[dict[str, str]]:
        """The question as chat messages."""
        if self.messages is not None:
            return [message.model_dump() for message in self.messages]
        return [{"role": "user", "content": str(self.prompt)}]

    @property
    def text(self) -> str:
        """The question without a chat template."""
        return "\n\n".join(message["content"] for message in self.conversation)

    @property
    def target(self) -> str:
        """The right answer as text."""
        if self.choices is not None and isinstance(self.reference, int):
            return self.choices[self.reference]
        return self.reference if isinstance(self.reference, str) else _plain(self.reference)


def _plain(value: Any) -> str:
    return (
        ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
    )


def normalise(text: str) -> str:
    """``text`` without case, width, surplus space and edge punctuation."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_EDGES)


def _text(row: Row) -> str | None:
    if not isinstance(row.reference, str | int | float):
        return "the reference is a text or a number"
    # An answer is compared without its edge punctuation.
    return None if normalise(str(row.reference)) else "the reference has no letter and no digit"


def _line(row: Row) -> str | None:
    if len(str(row.reference).strip().splitlines()) > 1:
        return "the reference has several lines; 'exact' looks at an answer's first"
    return _text(row)


def _number(row: Row) -> str | None:
    fits = isinstance(row.reference, int | float) and not isinstance(row.reference, bool)
    if not fits:
        return "the reference is a number"
    return None if abs(row.reference) <= _LARGEST else f"the reference is beyond {_LARGEST:g}"


def _one_choice(row: Row) -> str | None:
    choices = row.choices or []
    if len(set(choices)) < len(choices):
        return "two choices are the same"
    if isinstance(row.reference, int) and not isinstance(row.reference, bool):
        fits = 0 <= row.reference < len(choices)
    else:
        fits = row.reference in choices
    return None if fits else "the reference is an index into 'choices' or one of them"


def _fields(row: Row) -> str | None:
    return None if isinstance(row.reference, dict) else "the reference is an object of fields"


def _pattern(row: Row) -> str | None:
    try:
        re.compile(row.reference)
    except (re.error, TypeError) as error:
        return f"the reference is no regular expression: {error}"
    return None


_REFERENCES: Mapping[str, Callable[[Row], str | None]] = {
    "exact": _line,
    "numeric": _number,
    "contains": _text,
    "choice": _one_choice,
    "json_fields": _fields,
    "regex": _pattern,
}


def load_business(suite_file: Path, suite: BusinessSuite, root: Path) -> dict[str, list[Row]]:
    """The rows of every category of a suite.

    Raises:
        ConfigError: with every fault of every file, as ``path:line``.
    """
    faults: list[Fault] = []
    seen: dict[str, str] = {}
    rows = {
        category: _read(suite_file.parent / file, category, root, seen, faults)
        for category, file in suite.files.items()
    }
    if faults:
        raise ConfigError(faults)
    return rows


def _read(
    path: Path, category: str, root: Path, seen: dict[str, str], faults: list[Fault]
) -> list[Row]:
    where = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    before = len(faults)
    rows = []
    for line, raw in read_jsonl(path, where, faults):
        at = f"{where}:{line}"
        try:
            row = Row.model_validate(raw)
        except ValidationError as error:
            faults.extend(_fault(at, detail) for detail in error.errors())
            continue
        if row.category != category:
            message = f"'{row.category}' in the file of '{category}'"
            faults.append(Fault(at, "category", message, f"write '{category}' or move the row"))
        if row.id in seen:
            mend = "give every row its own id"
            faults.append(Fault(at, "id", f"'{row.id}' is also in {seen[row.id]}", mend))
        seen.setdefault(row.id, at)
        rows.append(row)
    if not rows and len(faults) == before:
        faults.append(Fault(where, "file", "has no rows", "add rows or leave the category out"))
    return rows


def _fault(at: str, detail: Any) -> Fault:
    key = ".".join(str(part) for part in detail["loc"]) or "row"
    kind, message = detail["type"], detail["msg"].removeprefix("Value error, ")
    if kind == "missing":
        return Fault(at, key, "required field is missing", f"add '{key}'")
    if kind == "extra_forbidden":
        return Fault(at, key, "unknown field", _known(key, list(Row.model_fields)))
    if key == "scorer":
        return Fault(
            at,
            key,
            f"unknown scorer '{detail['input']}'",
            _known(str(detail["input"]), list(get_args(Scorer))),
        )
    return Fault(at, key, message, "correct the row")


def _known(name: str, names: list[str]) -> str:
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean '{near[0]}'?" if near else f"one of: {', '.join(names)}"
