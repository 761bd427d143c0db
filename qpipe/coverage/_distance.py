"""How near token frequencies of a calibration set are to those of evaluation texts.

Jensen-Shannon divergence of term distributions is the usual measure of domain similarity for
choosing training text (Plank and van Noord 2011, "Effective Measures of Domain Similarity for
Parsing"; Ruder and Plank 2017). Of samples it mostly says how large they are, and a mix of many
categories is far from each of them. So the set is held against a reference with the same two
handicaps: an equally large draw of the evaluation texts of all *other* categories in equal parts. A
set in which the category has its place is about as near to it as that draw or nearer; one without
it is farther, and has fewer of its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import jensenshannon

__all__ = ["Nearness", "jensen_shannon", "nearness", "token_coverage"]

BLOCK = 32
"""Tokens that are drawn together: words of one text come in company."""
DRAWS = 16

Counts = NDArray[np.float64]


@dataclass(frozen=True)
class Nearness:
    """One group against a calibration set; ``_reference`` is ``None`` without other categories.

    ``coverage`` and ``js`` are of all rows. ``drawn_`` are means over draws of ``drawn_tokens``
    tokens, as large as the reference's.
    """

    coverage: float
    js: float
    drawn_tokens: int
    drawn_coverage: float
    drawn_js: float
    coverage_reference: float | None
    js_reference: float | None

    def record(self) -> dict[str, Any]:
        """As the check's record has it."""
        return asdict(self)


def jensen_shannon(a: Counts, b: Counts) -> float:
    """Divergence of two token distributions in bits, 0 to 1; counts need not sum to 1."""
    # scipy gives the square root, and a NaN where rounding makes a zero negative.
    return float(np.nan_to_num(jensenshannon(a, b, base=2)) ** 2)


def token_coverage(counts: Counts, target: Counts) -> float:
    """Share of the tokens of ``target``, each as often as it stands there, that ``counts`` has."""
    return float(target[counts > 0].sum() / target.sum())


def nearness(
    group: Sequence[Sequence[int]],
    rows: Sequence[Sequence[int]],
    others: Sequence[Sequence[Sequence[int]]],
    seed: int = 0,
) -> Nearness:
    """Compare a group's texts with calibration rows, and with texts of other categories.

    ``others`` is a list a category; all texts are token ids.
    """
    size = 1 + max(
        token for text in [*group, *rows, *(t for other in others for t in other)] for token in text
    )
    target, everything = _counts(group, size), _counts(rows, size)
    coverage, js = token_coverage(everything, target), jensen_shannon(everything, target)
    if not others:
        return Nearness(coverage, js, int(everything.sum()), coverage, js, None, None)
    own, foreign = [_blocks(rows)], [_blocks(other) for other in others]
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(DRAWS):
        reference = _draw(foreign, int(everything.sum()), size, rng)
        drawn = _draw(own, int(reference.sum()), size, rng)
        found.append(
            (
                drawn.sum(),
                token_coverage(drawn, target),
                jensen_shannon(drawn, target),
                token_coverage(reference, target),
                jensen_shannon(reference, target),
            )
        )
    tokens, *means = (float(value) for value in np.mean(found, axis=0))
    return Nearness(coverage, js, round(tokens), *means)


def _blocks(texts: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    return [text[at : at + BLOCK] for text in texts for at in range(0, len(text), BLOCK)]


def _draw(
    sources: Sequence[list[Sequence[int]]], tokens: int, size: int, rng: np.random.Generator
) -> Counts:
    """About ``tokens`` tokens, in equal parts; a source that has less gives all it has."""
    drawn: list[Sequence[int]] = []
    for blocks in sources:
        left = tokens / len(sources)
        for index in rng.permutation(len(blocks)):
            if left <= 0:
                break
            drawn.append(blocks[index][: int(np.ceil(left))])
            left -= len(drawn[-1])
    return _counts(drawn, size)


def _counts(texts: Sequence[Sequence[int]], size: int) -> Counts:
    ids = np.fromiter((token for text in texts for token in text), dtype=np.int64)
    return np.bincount(ids, minlength=size).astype(np.float64)
