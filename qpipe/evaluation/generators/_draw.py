"""Draws unique rows from makers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Draft", "Maker", "draw", "pick", "shots"]

Draft = dict[str, Any]
"""A row without id and category."""
Maker = Callable[[random.Random], Draft]

_TRIES = 200


def shots(examples: Sequence[tuple[str, str]], question: str, head: str = "") -> str:
    """A prompt of worked examples and a question, blocks parted by empty lines."""
    blocks = [head] if head else []
    blocks += [f"{asked}\nAnswer: {answer}" for asked, answer in examples]
    return "\n\n".join([*blocks, f"{question}\nAnswer:"])


def pick(rng: random.Random, items: Sequence[str], count: int) -> list[str]:
    """``count`` different items in random order."""
    return rng.sample(list(items), count)


def draw(category: str, makers: Sequence[Maker], seed: int, count: int) -> list[dict[str, Any]]:
    """``count`` rows of one category, makers in turn, no question twice, in random order.

    Raises:
        ValueError: the makers do not have that many different questions.
    """
    # A category's rows depend on its own name and seed only: adding one leaves the others alone.
    rng = random.Random(f"{category}/{seed}")
    drafts: list[Draft] = []
    seen: set[str] = set()
    live = list(makers)
    while len(drafts) < count:
        if not live:
            raise ValueError(f"{category}: only {len(drafts)} different questions, not {count}")
        maker = live[len(drafts) % len(live)]
        for _ in range(_TRIES):
            draft = maker(rng)
            question = _question(draft["prompt"])
            solved = question in draft["prompt"][: -len(question)]
            if question not in seen and not solved:
                seen.add(question)
                drafts.append(draft)
                break
        else:
            live.remove(maker)
    rng.shuffle(drafts)
    return [
        {"id": f"{category}-{number:03d}", "category": category, **draft}
        for number, draft in enumerate(drafts, start=1)
    ]


def _question(prompt: str) -> str:
    # Without its empty answer, a question already solved in the prompt is found again.
    return prompt.rsplit("\n\n", 1)[-1].removesuffix("Answer:")
