"""Draws unique rows from templates."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Draft", "Maker", "Template", "draw", "pick", "shots"]

Draft = dict[str, Any]
"""A row without id, category and level."""
Maker = Callable[[random.Random], Draft]

_LEVELS = (1, 2, 3, 4)
_TRIES = 200


@dataclass(frozen=True)
class Template:
    """One form of question. Its rows depend on each other, so each carries its name as a tag."""

    name: str
    level: int
    """1 fit for the smallest models … 4 hard for a model of eight billion parameters."""
    make: Maker


def shots(examples: Sequence[tuple[str, str]], question: str, head: str = "") -> str:
    """A prompt of worked examples and a question, blocks parted by empty lines."""
    blocks = [head] if head else []
    blocks += [f"{asked}\nAnswer:{_spaced(answer)}" for asked, answer in examples]
    return "\n\n".join([*blocks, f"{question}\nAnswer:"])


def _spaced(answer: str) -> str:
    return answer if answer.startswith("\n") else f" {answer}"


def pick(rng: random.Random, items: Sequence[str], count: int) -> list[str]:
    """``count`` different items in random order."""
    return rng.sample(list(items), count)


def draw(
    category: str, templates: Sequence[Template], seed: int, count: int
) -> list[dict[str, Any]]:
    """``count`` rows of one category, no question twice.

    Each four rows have all four levels, and a level's templates come in turn: the first rows of a
    draw are as even as the whole, and are what a smaller draw gives.

    Raises:
        ValueError: the templates do not have that many different questions.
    """
    # A category's rows depend on its own name and seed only: adding one leaves the others alone.
    rng = random.Random(f"{category}/{seed}")
    live = {level: deque(t for t in templates if t.level == level) for level in _LEVELS}
    seen: set[str] = set()
    rows: list[dict[str, Any]] = []
    levels: list[int] = []
    while len(rows) < count:
        levels = levels or rng.sample(_LEVELS, len(_LEVELS))
        level = levels.pop()
        draft = _fresh(rng, live[level], seen)
        if draft is None:
            raise ValueError(
                f"{category}: level {level} has no more different questions after {len(rows)} of "
                f"{count} rows"
            )
        name = f"{category}-{len(rows) + 1:03d}"
        rows.append({"id": name, "category": category, **draft, "level": level})
    return rows


def _fresh(rng: random.Random, live: deque[Template], seen: set[str]) -> Draft | None:
    while live:
        template = live.popleft()
        for _ in range(_TRIES):
            draft = template.make(rng)
            question = _question(draft["prompt"])
            solved = question in draft["prompt"][: -len(question)]
            if question not in seen and not solved:
                seen.add(question)
                live.append(template)
                return {**draft, "tags": [f"template:{template.name}", *draft.get("tags", ())]}
    return None


def _question(prompt: str) -> str:
    # Without its empty answer, a question already solved in the prompt is found again.
    return prompt.rsplit("\n\n", 1)[-1].removesuffix("Answer:")
