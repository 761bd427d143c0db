"""Figures of texts that two servers gave logprobs for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from qpipe.fidelity._kl import coarse_kl
from qpipe.fidelity._texts import ANSWER, HELD_OUT
from qpipe.stats import cluster_mean_interval, simultaneous

__all__ = ["compare_texts"]

CONFIDENCE = 0.95
KEY = ["kind", "category", "text_hash"]


def compare_texts(baseline: pd.DataFrame, measured: pd.DataFrame) -> dict[str, Any]:
    """Summary of held-out texts, their ``categories``, and the same of ``answers``.

    Both frames have a row a text: ``kind``, ``category``, ``text_hash``, ``first``, and per
    position ``ids`` and ``logprobs`` (of the likeliest tokens) and ``actual`` (of the text's own).
    """
    paired = baseline.merge(measured.drop(columns="first"), on=KEY, suffixes=("_p", "_q"))
    values = [_position_values(row) for row in paired.to_dict("records")]
    texts = pd.DataFrame(values).assign(
        kind=list(paired["kind"]), category=list(paired["category"])
    )
    answers = texts[texts["kind"] == ANSWER]
    record = _by_category(texts[texts["kind"] == HELD_OUT])
    return record if answers.empty else {**record, "answers": _by_category(answers)}


def _by_category(texts: pd.DataFrame) -> dict[str, Any]:
    groups = {str(name): group for name, group in texts.groupby("category", sort=True)}
    family = simultaneous(CONFIDENCE, len(groups))
    categories = {}
    for name, group in groups.items():
        _, low, high = cluster_mean_interval(list(group["kl"]), family)
        # These hold for all categories together: the worst of many is not chance.
        categories[name] = {**_summary(group), "kl_ci_low_all": low, "kl_ci_high_all": high}
    return {**_summary(texts), "categories": categories}


def _position_values(row: dict[Any, Any]) -> dict[str, Any]:
    """Per-position values of one text, measured on both servers."""
    first = int(row["first"])
    both = zip(row["ids_p"], row["logprobs_p"], row["ids_q"], row["logprobs_q"], strict=True)
    kl, agree = [], []
    for ids_p, logprobs_p, ids_q, logprobs_q in list(both)[first:]:
        kl.append(coarse_kl(list(ids_p), list(logprobs_p), list(ids_q), list(logprobs_q)))
        agree.append(ids_p[0] == ids_q[0])
    actual_p, actual_q = (np.asarray(row[f"actual_{side}"], float)[first:] for side in "pq")
    return {
        "kl": np.array(kl),
        "agree": np.array(agree, dtype=float),
        "nll_p": -actual_p,
        "nll_q": -actual_q,
        "dp": np.exp(actual_q) - np.exp(actual_p),
    }


def _summary(texts: pd.DataFrame) -> dict[str, Any]:
    """Figures over all positions; intervals are over texts.

    The set follows llama.cpp's ``--kl-divergence`` report: KL in nats a token, Δp the change of
    the probability of the text's own token, and the log ratio of perplexities.
    """
    kl, dp, nll_p, nll_q = (
        np.concatenate(list(texts[key])) for key in ("kl", "dp", "nll_p", "nll_q")
    )
    mean, low, high = cluster_mean_interval(list(texts["kl"]))
    # The rate of disagreement, like KL, is a small positive number.
    differ, differ_low, differ_high = cluster_mean_interval([1 - text for text in texts["agree"]])
    if differ == 0:  # what so many positions without one leave open (Hanley 1983, JAMA 249:1743)
        differ_high = 1 - (0.5 - CONFIDENCE / 2) ** (1 / len(kl))
    p50, p95, p99 = np.percentile(kl, [50, 95, 99])
    return {
        "texts": len(texts),
        "positions": len(kl),
        "kl_mean": mean,
        "kl_ci_low": low,
        "kl_ci_high": high,
        "kl_p50": float(p50),
        "kl_p95": float(p95),
        "kl_p99": float(p99),
        "kl_max": float(kl.max()),
        "kl_by_third": _by_third(list(texts["kl"])),
        "top1_agreement": 1 - differ,
        "top1_ci_low": max(0.0, 1 - differ_high),
        "top1_ci_high": 1 - differ_low,
        "dp_mean": float(dp.mean()),
        "dp_rms": float(np.sqrt(np.square(dp).mean())),
        "perplexity_baseline": float(np.exp(nll_p.mean())),
        "perplexity": float(np.exp(nll_q.mean())),
        "perplexity_ln_ratio": float(nll_q.mean() - nll_p.mean()),
    }


def _by_third(texts: list[np.ndarray[Any, np.dtype[np.float64]]]) -> list[float | None]:
    """Mean KL over the first, second and last third of each text's positions.

    What a quantized cache adds can grow with the number of keys and values read.
    """
    parts = zip(*(np.array_split(text, 3) for text in texts), strict=True)
    thirds = [np.concatenate(part) for part in parts]
    return [float(third.mean()) if third.size else None for third in thirds]
