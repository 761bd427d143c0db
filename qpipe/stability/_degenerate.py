"""Signs of a broken answer. One entry in ``KINDS`` adds one."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["KINDS", "Sample", "degenerate_kinds"]

_ROUNDS = 4  # so many repeats of one piece in a row are a loop
_LONGEST_PIECE = 200
_FEW_LETTERS = 12


@dataclass(frozen=True)
class Sample:
    """One sampled answer and what it answers."""

    prompt: str
    text: str
    finish_reason: str | None


def degenerate_kinds(sample: Sample) -> list[str]:
    """The names of all signs that ``sample`` shows."""
    return [name for name, shows in KINDS.items() if shows(sample)]


def _cut(sample: Sample) -> bool:
    return sample.finish_reason == "length"


def _loop(sample: Sample) -> bool:
    """The end says one piece of at least two characters over and over."""
    text = sample.text.rstrip()
    for size in range(2, min(_LONGEST_PIECE, len(text) // _ROUNDS) + 1):
        piece = text[-size:]
        if piece.strip() and text.endswith(piece * _ROUNDS):
            return True
    return False


def _encoding(sample: Sample) -> bool:
    """Replacement characters, or control characters that no text has."""
    return any(
        char == "\ufffd" or (unicodedata.category(char) == "Cc" and char not in "\t\n\r")
        for char in sample.text
    )


def _script(sample: Sample) -> bool:
    """Most letters are of a script of which the prompt has none."""
    scripts = _scripts(sample.text)
    if scripts.total() < _FEW_LETTERS:
        return False
    script, count = scripts.most_common(1)[0]
    return count > scripts.total() / 2 and script not in _scripts(sample.prompt)


def _scripts(text: str) -> Counter[str]:
    """Letters by the first word of their Unicode name: LATIN, CJK, CYRILLIC …"""
    return Counter(unicodedata.name(char, "?").split()[0] for char in text if char.isalpha())


KINDS: Mapping[str, Callable[[Sample], bool]] = {
    "cut": _cut,
    "loop": _loop,
    "encoding": _encoding,
    "script": _script,
}
"""Cut by the length limit, caught in a loop, broken characters, another script."""
