"""Rows of business suites, read with all their faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from qpipe.config import BusinessSuite
from qpipe.errors import ConfigError, Fault
from qpipe.evaluation._problems import Problem, meant
from qpipe.evaluation._scorers import SCORERS, Scorer
from qpipe.jsonl import read_jsonl

__all__ = ["Message", "Placed", "Row", "cluster_tag", "load_business", "read_business"]

Text = Annotated[str, Field(min_length=1)]
_OWN_FIELDS = {name for scorer in SCORERS.values() for name in (*scorer.needs, *scorer.takes)}


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
    scorer: str
    """How the answer is judged: a built-in scorer, or one of the suite's own."""
    choices: list[Text] | None = Field(default=None, min_length=2)
    """For ``choice``: the answers whose likelihoods are compared."""
    tolerance: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """For ``numeric``: largest difference that is still right; 0 when absent."""
    prefix: Text | None = None
    """For ``code_tests``: code that an answer without a fenced block goes on from."""
    tags: list[str] = Field(default_factory=list)
    """Free words to sort rows by."""
    level: int = Field(ge=1, le=4)
    """1 trivial … 4 hard."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Longest answer in tokens; the suite's when absent."""
    stop: list[Text] = Field(default_factory=list)
    """Texts that end the answer."""

    @field_validator("scorer")
    @classmethod
    def _known_scorer(cls, value: str, info: ValidationInfo) -> str:
        known = _scorers(info)
        if value not in known:
            raise _error(Problem(f"unknown scorer '{value}'", meant(value, known)))
        return value

    @model_validator(mode="after")
    def _parts_fit(self, info: ValidationInfo) -> Row:
        known = _scorers(info)
        problems = list(_own_fields(self, known))
        if (self.prompt is None) == (self.messages is None):
            problems.append(Problem("a row has either 'prompt' or 'messages'"))
        if self.reference in (None, "", {}, []):
            problems.append(Problem("the reference is empty"))
        if not problems:
            problems += known[self.scorer].wrong(self)
        if problems:
            details = [
                InitErrorDetails(type=_error(problem), loc=problem.key, input=None)
                for problem in problems
            ]
            raise ValidationError.from_exception_data("row", details)
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


def _scorers(info: ValidationInfo) -> Mapping[str, Scorer]:
    """The built-in scorers, and those of the row's suite when it is read with them."""
    known: Mapping[str, Scorer] = (info.context or {}).get("scorers", SCORERS)
    return known


def _error(problem: Problem) -> PydanticCustomError:
    context = {"message": problem.message, "mend": problem.mend}
    return PydanticCustomError("problem", "{message}", context)


def _own_fields(row: Row, known: Mapping[str, Scorer]) -> Iterator[Problem]:
    scorer = known[row.scorer]
    for name in sorted(_OWN_FIELDS):
        given = getattr(row, name) is not None
        if given != (name in scorer.needs) and not (given and name in scorer.takes):
            owner = next(key for key, one in known.items() if name in (*one.needs, *one.takes))
            yield Problem(f"'{name}' goes with scorer '{owner}', and only with it")


@dataclass(frozen=True)
class Placed:
    """A row and where it stands."""

    at: str
    """``path:line``."""
    row: Row

    @property
    def key(self) -> str:
        """The field that holds the question."""
        return "prompt" if self.row.messages is None else "messages"


def cluster_tag(tags: list[str], by: str) -> str | None:
    """The tag ``by:…`` that questions which depend on each other share; ``None``: there is none."""
    return next((tag for tag in tags if tag.startswith(f"{by}:")), None)


def load_business(suite_file: Path, suite: BusinessSuite, root: Path) -> dict[str, list[Row]]:
    """The rows of every category of a suite.

    Raises:
        ConfigError: with every fault of every file, as ``path:line``.
    """
    faults: list[Fault] = []
    placed = read_business(suite_file, suite, root, faults)
    if faults:
        raise ConfigError(faults)
    return {category: [one.row for one in rows] for category, rows in placed.items()}


def read_business(
    suite_file: Path, suite: BusinessSuite, root: Path, faults: list[Fault]
) -> dict[str, list[Placed]]:
    """The rows without faults of every category; the others' faults go to ``faults``."""
    seen: dict[str, str] = {}
    # A suite's own functions are not needed to read rows, so they are not loaded here.
    own = {name: Scorer(lambda _: (), _not_loaded) for name in suite.scorers}
    known = {**SCORERS, **own}
    return {
        category: _read(suite_file.parent / file, category, root, known, seen, faults)
        for category, file in suite.files.items()
    }


def _not_loaded(row: Row, _: str) -> float:
    raise RuntimeError(f"the scorer '{row.scorer}' is not loaded")


def _read(
    path: Path,
    category: str,
    root: Path,
    known: Mapping[str, Scorer],
    seen: dict[str, str],
    faults: list[Fault],
) -> list[Placed]:
    where = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    before = len(faults)
    rows = []
    for line, raw in read_jsonl(path, where, faults):
        at = f"{where}:{line}"
        try:
            row = Row.model_validate(raw, context={"scorers": known})
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
        rows.append(Placed(at, row))
    if not rows and len(faults) == before:
        faults.append(Fault(where, "file", "has no rows", "add rows or leave the category out"))
    return rows


def _fault(at: str, detail: Any) -> Fault:
    key = ".".join(str(part) for part in detail["loc"]) or "row"
    kind = detail["type"]
    if kind == "missing":
        return Fault(at, key, "required field is missing", f"add '{key}'")
    if kind == "extra_forbidden":
        return Fault(at, key, "unknown field", meant(key, Row.model_fields))
    return Fault(at, key, detail["msg"], detail.get("ctx", {}).get("mend", "correct the row"))
