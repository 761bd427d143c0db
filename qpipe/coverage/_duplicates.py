"""Texts that stand in a set twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

__all__ = ["duplicates"]

GRAM = 5
SIMILAR = 0.8
"""Jaccard similarity of 5-grams (Lee et al. 2022, "Deduplicating Training Data Makes Language
Models Better")."""


def duplicates(texts: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Texts (token ids) that repeat an earlier one: ``exact``, ``near`` and their ``share``."""
    first: dict[tuple[int, ...], int] = {}
    for index, text in enumerate(texts):
        first.setdefault(tuple(text), index)
    distinct = sorted(first.values())
    near = _near([texts[index] for index in distinct])
    exact = len(texts) - len(distinct)
    share = (exact + near) / len(texts) if texts else 0.0
    return {"texts": len(texts), "exact": exact, "near": near, "share": share}


def _near(texts: Sequence[Sequence[int]]) -> int:
    columns: dict[tuple[int, ...], int] = {}
    places: list[tuple[int, int]] = []
    for index, text in enumerate(texts):
        # A text shorter than a gram is one gram.
        starts = range(max(1, len(text) - GRAM + 1))
        grams = {tuple(text[start : start + GRAM]) for start in starts}
        places += [(index, columns.setdefault(gram, len(columns))) for gram in grams]
    if not places:
        return 0
    rows, grams_of = np.array(places).T
    shape = (len(texts), len(columns))
    has = csr_array((np.ones(len(places), dtype=np.int64), (rows, grams_of)), shape=shape)
    sizes = has.sum(axis=1)
    shared = (has @ has.T).tocoo()
    later, earlier = shared.coords
    similarity = shared.data / (sizes[later] + sizes[earlier] - shared.data)
    return len(set(later[(later > earlier) & (similarity >= SIMILAR)].tolist()))
