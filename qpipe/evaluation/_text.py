"""Texts as scorers compare them."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["normalise", "occurrences", "words"]

_EDGES = " \t\n.,;:!?。，；：！？'\"“”‘’`*"
_SIGN = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")


def normalise(text: str) -> str:
    """``text`` without case, width, surplus space and edge punctuation."""
    return _folded(text).strip(_EDGES)


def occurrences(wanted: str, text: str) -> int:
    """How often ``wanted`` stands in ``text``, whatever the case, width and spaces.

    Word edges keep "no" out of "know"; scripts without spaces have none to look for.
    """
    wanted = _folded(wanted)
    pattern = re.escape(wanted)
    if wanted.isascii():
        before = r"(?<!\w)" if re.match(r"\w", wanted) else ""
        after = r"(?!\w)" if re.search(r"\w$", wanted) else ""
        pattern = f"{before}{pattern}{after}"
    return len(re.findall(pattern, _folded(text)))


def words(text: str) -> list[str]:
    """What spaces part and has a letter or digit; every sign of Chinese and Japanese is a word."""
    # `\w+` would break the words of scripts that write vowels as marks.
    parts = _SIGN.sub(r" \1 ", text).split()
    return [part for part in parts if any(map(str.isalnum, part))]


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
