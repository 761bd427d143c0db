"""Pairs the rows of two sample files and compares them category by category."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from qpipe.errors import InvalidMeasurement
from qpipe.stats import Paired, holm, paired_difference

__all__ = [
    "KEY",
    "Pairing",
    "compared_by",
    "cut_by_length",
    "overall",
    "pair",
    "shares",
    "unit_of",
]

KEY = ["task", "doc_hash", "prompt_hash", "target_hash"]
_SHOWN = (
    "delta",
    "ci_low",
    "ci_high",
    "ci_low_all",
    "ci_high_all",
    "p_value",
    "disagreement",
    "design_effect",
    "method",
)
_COPY = "_copy"  # tells equal questions of one task apart


@dataclass(frozen=True)
class Pairing:
    """Rows asked of both, and how many were asked of one only."""

    rows: pd.DataFrame
    """Columns ``category``, ``tags``, ``unit`` and ``cluster``; ``score``, ``cut``, ``empty`` and
    ``response`` of both, the baseline's with ``_baseline``."""
    unpaired_baseline: int
    unpaired_variant: int
    missing: list[str]
    """The baseline's categories without one pair."""


def pair(baseline: pd.DataFrame, variant: pd.DataFrame, name: str) -> Pairing:
    """Join rows whose task, document, prompt and target hashes agree; never by position.

    Raises:
        InvalidMeasurement: no row can be paired.
    """
    merged = _keyed(baseline).merge(
        _keyed(variant).drop(columns=["category", "tags", "unit", "cluster"]),
        on=[*KEY, _COPY],
        suffixes=("_baseline", ""),
        validate="one_to_one",
    )
    if merged.empty:
        raise InvalidMeasurement(
            f"no question of '{name}' has the document, prompt and target of the baseline's",
            mend=f"measure both on the same suites: `qpipe measure bf16`, `qpipe measure {name}`",
        )
    return Pairing(
        rows=merged,
        unpaired_baseline=len(baseline) - len(merged),
        unpaired_variant=len(variant) - len(merged),
        missing=sorted(set(baseline["category"]) - set(merged["category"])),
    )


def compared_by(rows: pd.DataFrame, column: str, confidence: float) -> dict[str, dict[str, Any]]:
    """One comparison for each value of ``column``; rows without one are left out.

    ``p_holm`` is adjusted over all of them, and ``ci_low_all`` and ``ci_high_all`` hold for all
    together: who looks for the worst of many must not take chance for damage.
    """
    groups = {str(name): group for name, group in rows.groupby(column, sort=True)}
    found = {name: _compared(group, confidence, len(groups)) for name, group in groups.items()}
    adjusted = holm([entry["p_value"] for entry in found.values()])
    for entry, p_holm in zip(found.values(), adjusted, strict=True):
        entry["p_holm"] = p_holm
    return found


def cut_by_length(samples: pd.DataFrame) -> pd.Series[float]:
    """1.0 where an answer was cut, 0.0 where it ended, NaN where none was generated."""
    reasons = samples["finish_reason"]
    return reasons.fillna("").eq("length").astype(float).where(reasons.notna())


def overall(rows: pd.DataFrame, confidence: float) -> dict[str, Any] | None:
    """All questions together, each with the same weight, but those scored by log-likelihood.

    ``None`` where there are no others.
    """
    scored = shares(rows)
    return None if scored.empty else _compared(scored, confidence)


def shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Questions whose score is a share; scores in units have no mean with them."""
    return rows[rows["unit"].isna()]


def unit_of(rows: pd.DataFrame) -> str | None:
    """The unit of a category's scores; ``None``: shares."""
    first = rows["unit"].iloc[0]
    return None if pd.isna(first) else str(first)


def _keyed(samples: pd.DataFrame) -> pd.DataFrame:
    ordered = samples.sort_values([*KEY, "doc_id"], kind="stable")
    return pd.DataFrame(
        {
            **{column: ordered[column] for column in [*KEY, "category", "tags", "unit"]},
            _COPY: ordered.groupby(KEY).cumcount(),
            "score": ordered["score"].astype(float),
            "cut": cut_by_length(ordered),
            "empty": ordered["empty"].astype("Float64"),
            "response": ordered["response"],
            "cluster": ordered["task"] + "/" + ordered["cluster"].fillna(ordered["doc_id"]),
        }
    )


def _compared(rows: pd.DataFrame, confidence: float, family: int = 1) -> dict[str, Any]:
    score, unit = _paired(rows, "score", confidence, family), unit_of(rows)
    return {
        "n": score.n,
        "unit": unit,
        "score_baseline": score.mean_baseline,
        "score": score.mean_variant,
        **{key: value for key, value in asdict(score).items() if key in _SHOWN},
        "right_to_wrong": score.losses,
        "wrong_to_right": score.wins,
        "wrong_to_other_wrong": None if unit else _other_wrong(rows),
        **_broken(rows, confidence, family),
        "family": family,
    }


def _other_wrong(rows: pd.DataFrame) -> int:
    """Questions that both score alike and below 1, with another text."""
    alike = rows["score"].eq(rows["score_baseline"]) & rows["score"].lt(1)
    return int((alike & rows["response"].ne(rows["response_baseline"])).sum())


def _broken(rows: pd.DataFrame, confidence: float, family: int) -> dict[str, Any]:
    """Answers cut by length, and empty ones, over the questions both answered in text.

    Shares are ``None`` where likelihood judged all of them.
    """
    answered = rows.dropna(subset=["cut_baseline", "cut"])
    cut = None if answered.empty else _paired(answered, "cut", confidence, family)
    return {
        "answers": len(answered),
        "truncated_share_baseline": cut and cut.mean_baseline,
        "truncated_share": cut and cut.mean_variant,
        "truncated_excess": cut and cut.delta,
        "truncated_excess_ci_low": cut and cut.ci_low,
        "truncated_excess_ci_high": cut and cut.ci_high,
        "truncated_excess_ci_low_all": cut and cut.ci_low_all,
        "empty_baseline": int(answered["empty_baseline"].sum()),
        "empty": int(answered["empty"].sum()),
    }


def _paired(rows: pd.DataFrame, column: str, confidence: float, family: int) -> Paired:
    baseline: np.ndarray[Any, np.dtype[np.float64]] = rows[f"{column}_baseline"].to_numpy(float)
    clusters = rows["cluster"].to_list()
    try:
        return paired_difference(
            baseline,
            rows[column].to_numpy(float),
            confidence,
            clusters=clusters,
            comparisons=family,
        )
    except ValueError as error:
        raise InvalidMeasurement(
            f"a sample has no usable {column}: {error}", mend="measure the variant again"
        ) from error
