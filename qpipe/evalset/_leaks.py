"""Texts that stand in two places that have to be apart, found by what they share word for word."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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


def find_leaks(
    targets: Sequence[Text], sources: Iterable[Text], words: int = WORDS, signs: int = SIGNS
) -> list[Leak]:
    """The first thing that each target shares with any of ``sources``, in the targets' order.

    That is ``words`` words or ``signs`` signs in a row, or the whole of a shorter text. What more
    than a tenth of a group's targets share among themselves is their instruction, and no leak.
    """
    index: dict[Gram, list[int]] = {}
    for number, target in enumerate(targets):
        for gram in set(_grams(target.content, words, signs)):
            index.setdefault(gram, []).append(number)
    _drop_instructions(index, targets)
    found: dict[int, Leak] = {}
    for source in sources:
        for gram in _grams(source.content, words, signs):
            for number in index.get(gram, ()):
                if number not in found:
                    shared = " ".join(gram)
                    found[number] = Leak(targets[number], source, shared)
    return [found[number] for number in sorted(found)]


def _drop_instructions(index: dict[Gram, list[int]], targets: Sequence[Text]) -> None:
    sizes = Counter(target.group for target in targets)
    for gram, numbers in index.items():
        if len(numbers) <= _COMMON_AT_LEAST:
            continue
        counts = Counter(targets[number].group for number in numbers)
        common = {
            group
            for group, count in counts.items()
            if count > max(_COMMON_AT_LEAST, _COMMON_SHARE * sizes[group])
        }
        index[gram] = [number for number in numbers if targets[number].group not in common]


def _grams(text: str, words: int, signs: int) -> Iterator[Gram]:
    plain = _MARKS.sub("", unicodedata.normalize("NFKC", text).casefold())
    parts = plain.split()
    joined = "".join(parts)
    unspaced = len(_NO_SPACES.findall(joined))
    if _SHORT <= len(parts) < words or (len(parts) < words and signs > unspaced >= signs // 2):
        yield tuple(parts)
    yield from zip(*(parts[start:] for start in range(words)), strict=False)
    if unspaced < signs // 2:
        return
    before = [0, *accumulate(bool(_NO_SPACES.match(sign)) for sign in joined)]
    for start in range(len(joined) - signs + 1):
        # Half of them: numbers and Latin words between are part of such a text.
        if before[start + signs] - before[start] >= signs // 2:
            yield (joined[start : start + signs],)
