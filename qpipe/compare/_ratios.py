"""Fidelity, speed and memory figures, with their ratios to the baseline's."""

from __future__ import annotations

from typing import Any

__all__ = ["fidelity_part", "memory_part", "noise_part", "speed_part"]

_FIDELITY = (
    "self",
    "positions",
    "kl_mean",
    "kl_ci_low",
    "kl_ci_high",
    "kl_p50",
    "kl_p95",
    "kl_p99",
    "kl_max",
    "kl_by_third",
    "top1_agreement",
    "top1_ci_low",
    "top1_ci_high",
    "dp_mean",
    "dp_rms",
    "perplexity",
    "perplexity_baseline",
    "perplexity_ln_ratio",
    "categories",
    "answers",
)
_RATES = ("output_tok_s", "total_tok_s", "req_s")
_LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")


def fidelity_part(record: dict[str, Any]) -> dict[str, Any]:
    """The figures of a fidelity record, without what it was measured on."""
    return {"categories": {}} | {key: record[key] for key in _FIDELITY if key in record}


def noise_part(record: dict[str, Any]) -> dict[str, Any] | None:
    """What two runs of the baseline differ by; ``None`` where there was one."""
    noise = record.get("noise")
    return noise and {"order": noise["order"], "concurrency": noise["concurrency"]} | {
        key: noise[key] for key in _FIDELITY if key in noise
    }


def speed_part(own: dict[str, Any], base: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry a concurrency level; a ratio is ``null`` where the baseline has no such level."""
    levels = {level["concurrency"]: level for level in base.get("levels", [])}
    return [_level(level, levels.get(level["concurrency"], {})) for level in own.get("levels", [])]


def memory_part(own: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """Every memory figure, and its ratio where both have one."""
    mine, theirs = own.get("memory") or {}, base.get("memory") or {}
    ratios = {f"{key}_ratio": _ratio(mine[key], theirs.get(key)) for key in mine}
    return {**mine, **ratios}


def _level(own: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = {"concurrency": own["concurrency"]}
    for key in _RATES:
        part[key] = own.get(key)
        part[f"{key}_ratio"] = _ratio(own.get(key), base.get(key))
    for key in _LATENCIES:
        name = key.removesuffix("_ms")
        for quantile, value in (own.get(key) or {}).items():
            part[f"{name}_{quantile}_ms"] = value
            part[f"{name}_{quantile}_ratio"] = _ratio(value, (base.get(key) or {}).get(quantile))
    return part


def _ratio(own: Any, base: Any) -> float | None:
    if not isinstance(own, int | float) or not isinstance(base, int | float) or base == 0:
        return None
    return float(own / base)
