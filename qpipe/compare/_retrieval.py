"""Scores by length and depth of questions that plant a fact in a long text."""

from __future__ import annotations

from typing import Any

import pandas as pd

__all__ = ["retrieval_map"]


def retrieval_map(samples: pd.DataFrame) -> list[dict[str, Any]]:
    """One entry a length and depth: ``length``, ``depth`` (percent), ``n``, ``score``.

    Questions say where they stand by their tags ``tokens:LENGTH`` and ``depth:PERCENT``.
    """
    tags = samples["tags"].fillna("")
    placed = samples.assign(
        length=tags.str.extract(r"(?:^|,)tokens:([^,]+)", expand=False),
        depth=tags.str.extract(r"(?:^|,)depth:(\d+)", expand=False),
    ).dropna(subset=["length", "depth"])
    entries = [
        {
            "length": str(rows["length"].iloc[0]),
            "depth": int(rows["depth"].iloc[0]),
            "n": len(rows),
            "score": float(rows["score"].mean()),
        }
        for _, rows in placed.groupby(["length", "depth"])
    ]
    return sorted(entries, key=lambda entry: (_tokens(entry["length"]), entry["depth"]))


def _tokens(length: str) -> float:
    number, thousand = length.rstrip("k"), length.endswith("k")
    return float(number) * (1000 if thousand else 1) if number.replace(".", "").isdigit() else 0.0
