"""The writing systems of texts."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable

__all__ = ["script_shares"]

_CHINESE = {"CJK": "HAN", "IDEOGRAPHIC": "HAN", "KANGXI": "HAN"}


def script_shares(texts: Iterable[str]) -> dict[str, float]:
    """Share of each script in the letters of ``texts``, the largest first; empty without letters.

    A script is the first word of its letters' Unicode names (``LATIN``, ``BENGALI``), which the
    standard library has. Digits and marks that many scripts share do not count.
    """
    signs: Counter[str] = Counter()
    for text in texts:
        signs.update(unicodedata.normalize("NFKC", text))
    found: Counter[str] = Counter()
    for sign, count in signs.items():
        if unicodedata.category(sign)[0] in "LM":
            first = unicodedata.name(sign, "").partition(" ")[0]
            if first and first not in ("COMBINING", "MODIFIER", "VARIATION"):
                found[_CHINESE.get(first, first)] += count
    total = found.total()
    return {script: count / total for script, count in found.most_common()}
