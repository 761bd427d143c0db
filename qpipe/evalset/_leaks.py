"""Texts that stand in two places that have to be apart, found by what they share word for word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

__all__ = ["SIGNS", "WORDS", "Leak", "Text", "find_leaks"]

WORDS = 13
"""So many words in a row are no chance (GPT-3's measure of contamination)."""
SIGNS = 20
"""So many letters and digits in a row, in scripts that write no spaces."""
_SHORT = 4
_COMMON_SHARE, _COMMON_AT_LEAST = 0.1, 2
_NO_SPACES = re.compile(
    r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
)
_MARKS = re.compile(r"[^\w\s]")

Gram = tuple[str, ...]


@dataclass(frozen=True)
class Text:
    """A text, where it stands, and which texts it is one of."""

    where: str
    key: str
    group: str
    content: str


@dataclass(frozen=True)
class Leak:
    """What two texts share."""

    target: Text
    source: Text
    shared: str


def find_leaks(targets: Sequence[Text], sources: Iterable[Text]) -> list[Leak]:
    """The first thing that each target shares with any of ``sources``, in the targets' order.

    That is ``WORDS`` words or ``SIGNS`` signs in a row, or the whole of a shorter text. What more
    than a tenth of a group's targets share among themselves is their instruction, and no leak.
    """
    index: dict[Gram, list[int]] = {}
    for number, target in enumerate(targets):
        for gram in set(_grams(target.content)):
            index.setdefault(gram, []).append(number)
    _drop_common(index, targets)
    found: dict[int, Leak] = {}
    for source in sources:
        for gram in _grams(source.content):
            for number in index.get(gram, ()):
                if number not in found:
                    shared = " ".join(gram)
                    found[number] = Leak(targets[number], source, shared)
    return [found[number] for number in sorted(found)]


def _drop_common(index: dict[Gram, list[int]], targets: Sequence[Text]) -> None:
    sizes: dict[str, int] = {}
    for target in targets:
        sizes[target.group] = sizes.get(target.group, 0) + 1
    limits: Mapping[str, float] = {
        group: max(_COMMON_AT_LEAST, _COMMON_SHARE * size) for group, size in sizes.items()
    }
    for gram, numbers in list(index.items()):
        if len(numbers) > _COMMON_AT_LEAST and len(numbers) > limits[targets[numbers[0]].group]:
            del index[gram]


def _grams(text: str) -> Iterator[Gram]:
    plain = _MARKS.sub("", unicodedata.normalize("NFKC", text).casefold())
    parts = plain.split()
    signs = "".join(parts)
    unspaced = [0, *accumulate(bool(_NO_SPACES.match(sign)) for sign in signs)]
    if _SHORT <= len(parts) < WORDS or (len(parts) < WORDS and SIGNS > unspaced[-1] >= SIGNS // 2):
        yield tuple(parts)
    yield from zip(*(parts[start:] for start in range(WORDS)), strict=False)
    if unspaced[-1] < SIGNS // 2:
        return
    for start in range(len(signs) - SIGNS + 1):
        # Half of them: numbers and Latin words between are part of such a text.
        if unspaced[start + SIGNS] - unspaced[start] >= SIGNS // 2:
            yield (signs[start : start + SIGNS],)
