"""Questions on long texts: scores by length, and by length and depth of what is asked for."""

from __future__ import annotations

from typing import Any

import pandas as pd

from qpipe.compare._pairs import compared_by
from qpipe.config import LONG_CONTEXT

__all__ = ["by_length", "long_context", "retrieval_map", "scores_by_length"]


def retrieval_map(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """One entry a length and depth: ``length``, ``depth`` (percent), ``n``, ``score``.

    Questions say where they stand by their tags ``tokens:LENGTH`` and ``depth:PERCENT``. Paired
    rows also give ``score_baseline`` and ``delta`` over the same questions.
    """
    placed = _placed(rows).dropna(subset=["length", "depth"])
    entries = [_cell(cell) for _, cell in placed.groupby(["length", "depth"])]
    return sorted(entries, key=lambda entry: (_tokens(entry["length"]), entry["depth"]))


def scores_by_length(rows: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """``n`` and ``score`` of each length, rising."""
    groups = {str(length): group for length, group in _placed(rows).groupby("length")}
    return {
        length: {"n": len(groups[length]), "score": float(groups[length]["score"].mean())}
        for length in sorted(groups, key=_tokens)
    }


def by_length(pairs: pd.DataFrame, confidence: float) -> dict[str, dict[str, Any]]:
    """One comparison a length, rising; intervals and p-values as those of categories."""
    found = compared_by(_placed(pairs), "length", confidence)
    return {length: found[length] for length in sorted(found, key=_tokens)}


def long_context(pairs: pd.DataFrame) -> dict[str, int]:
    """How many ``questions`` are on long texts, and to how many of them ``answers`` were written.

    Those are questions tagged with a length, and the tasks of the category ``long-context``.
    """
    long = pairs[_placed(pairs)["length"].notna() | pairs["category"].eq(LONG_CONTEXT)]
    return {"questions": len(long), "answers": int(long["cut"].notna().sum())}


def _placed(rows: pd.DataFrame) -> pd.DataFrame:
    """With the columns ``length`` and ``depth``, absent where a row has no such tag."""
    tags = rows["tags"].fillna("")
    return rows.assign(
        length=tags.str.extract(r"(?:^|,)tokens:([^,]+)", expand=False),
        depth=tags.str.extract(r"(?:^|,)depth:(\d+)", expand=False),
    )


def _cell(rows: pd.DataFrame) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "length": str(rows["length"].iloc[0]),
        "depth": int(rows["depth"].iloc[0]),
        "n": len(rows),
        "score": float(rows["score"].mean()),
    }
    if "score_baseline" in rows:
        entry["score_baseline"] = float(rows["score_baseline"].mean())
        entry["delta"] = float((rows["score"] - rows["score_baseline"]).mean())
    return entry


def _tokens(length: str) -> float:
    number, thousand = length.rstrip("k"), length.endswith("k")
    return float(number) * (1024 if thousand else 1) if number.replace(".", "").isdigit() else 0.0
