"""Sampled answers of a variant against the baseline's, question by question."""

from __future__ import annotations

from typing import Any

import pandas as pd

from qpipe.stats import Paired, paired_difference

__all__ = ["stability_part"]

KEY = ["suite", "category", "id"]


def stability_part(
    own: dict[str, Any], base: dict[str, Any], confidence: float
) -> dict[str, Any] | None:
    """Variance of the score and share of degenerate answers, and their paired differences.

    ``None`` where nothing was sampled of both. Shares by kind are the variant's own.
    """
    if not own.get("questions") or not base.get("questions"):
        return None
    mine, theirs = pd.DataFrame(own["questions"]), pd.DataFrame(base["questions"])
    both = theirs.merge(mine, on=KEY, suffixes=("_baseline", ""))
    if both.empty:
        return None
    part: dict[str, Any] = {"questions": len(both), "samples": own["samples"]}
    for figure in ("score_mean", "score_variance", "degenerate"):
        paired = _paired(both, figure, confidence)
        part[figure] = {
            "baseline": paired.mean_baseline,
            "variant": paired.mean_variant,
            "delta": paired.delta,
            "ci_low": paired.ci_low,
            "ci_high": paired.ci_high,
        }
    kinds = [key for key in mine.columns if key not in {*KEY, "cluster", *part}]
    return {**part, "kinds": {kind: float(both[kind].mean()) for kind in kinds}}


def _paired(both: pd.DataFrame, figure: str, confidence: float) -> Paired:
    return paired_difference(
        both[f"{figure}_baseline"].to_numpy(float),
        both[figure].to_numpy(float),
        confidence,
        clusters=both["cluster_baseline"].to_list(),
    )
