"""Texts as scorers compare them."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

__all__ = ["normalise", "occurrences", "words"]

_EDGES = " \t\n.,;:!?。，；：！？'\"“”‘’`*"
_SIGN = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")
# How the Unicode names of signs start whose words stand without spaces between them; in Korean,
# particles stand at the word.
_WITHOUT_EDGES = (
    "CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "HANGUL",
)  # fmt: skip
_WORD_SIGNS = {"Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Mn", "Nd", "Nl", "No"}
_POINT_BEFORE = re.compile(r"\d[.,]\Z|(?:\A|[^\w.])\.\Z")
_MORE_NUMBER = re.compile(r"[.,]\d|[十百千万萬亿億]")


def normalise(text: str) -> str:
    """``text`` without case, width, surplus space and edge punctuation."""
    return _folded(text).strip(_EDGES)


def occurrences(wanted: str, text: str) -> int:
    """How often ``wanted`` stands in ``text``, whatever the case, width and spaces.

    Word edges keep "no" out of "know" and 5 out of "0.5" and "5,000"; scripts without spaces have
    none to look for.
    """
    wanted, text = _folded(wanted), _folded(text)
    count = at = 0
    while wanted and (at := text.find(wanted, at)) >= 0:
        end = at + len(wanted)
        alone = not (_begun_before(text, at) or _goes_on(text, end))
        count += alone
        at = end if alone else at + 1
    return count


def _begun_before(text: str, at: int) -> bool:
    """Whether the word or number at ``at`` begins before it."""
    if at and _in_word(text[at - 1]) and _in_word(text[at]):
        return True
    return text[at].isdigit() and _POINT_BEFORE.search(text[max(0, at - 2) : at]) is not None


def _goes_on(text: str, end: int) -> bool:
    """Whether the word or number before ``end`` goes on after it."""
    if end < len(text) and _in_word(text[end - 1]) and _in_word(text[end]):
        return True
    return text[end - 1].isdigit() and _MORE_NUMBER.match(text, end) is not None


@lru_cache(maxsize=4096)
def _in_word(sign: str) -> bool:
    """Whether ``sign`` is part of words that have edges; vowels may be marks."""
    if sign == "_":
        return True
    if unicodedata.category(sign) not in _WORD_SIGNS:
        return False
    return not unicodedata.name(sign, "").startswith((*_WITHOUT_EDGES, "VARIATION"))


def words(text: str) -> list[str]:
    """What spaces part and has a letter or digit; every sign of Chinese and Japanese is a word."""
    # `\w+` would break the words of scripts that write vowels as marks.
    parts = _SIGN.sub(r" \1 ", text).split()
    return [part for part in parts if any(map(str.isalnum, part))]


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
