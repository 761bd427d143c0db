"""What of a variant's records becomes a parameter, a metric or a tag."""

from __future__ import annotations

from typing import Any

from qpipe.config import Config

__all__ = ["flatten", "metrics_of", "params_of"]

_MEMORY = (
    "weights_gib",
    "resident_gib",
    "nvml_gib",
    "kv_capacity_tokens",
    "kv_max_concurrency",
)
_FIDELITY = (
    "kl_mean",
    "kl_ci_low",
    "kl_ci_high",
    "kl_p99",
    "kl_max",
    "top1_agreement",
    "top1_ci_low",
    "top1_ci_high",
    "perplexity",
)


def flatten(value: Any, prefix: str = "") -> dict[str, str]:
    """Nested mappings and lists as dotted keys; what is absent is left out."""
    if isinstance(value, dict):
        items = [(str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list | tuple) and any(isinstance(each, dict) for each in value):
        items = [(str(index), inner) for index, inner in enumerate(value)]
    elif isinstance(value, list | tuple):
        return {prefix: ", ".join(map(str, value))} if value else {}
    else:
        return {} if value is None else {prefix: str(value)}
    flat: dict[str, str] = {}
    for key, inner in items:
        flat |= flatten(inner, f"{prefix}.{key}" if prefix else key)
    return flat


def params_of(config: Config, name: str, entry: dict[str, Any]) -> dict[str, str]:
    """The scheme file, what was restored, and what the figures were measured on."""
    scheme = config.scheme_of(name)
    fallback = config.release.fallback.get(name)
    source = config.release.source_of(name)
    return flatten(
        {
            "scheme_name": source.scheme if source else None,
            "scheme": scheme.model_dump(exclude_defaults=True) if scheme else None,
            "fallback": fallback.model_dump(exclude_defaults=True) if fallback else None,
            "measured": entry.get("provenance"),
        }
    )


def metrics_of(entry: dict[str, Any]) -> dict[str, float]:
    """Scores and deltas by category and length of text, KL, speed by concurrency, memory."""
    found: dict[str, Any] = {}
    for category, figures in entry.get("categories", {}).items():
        # A log-likelihood is no accuracy.
        kind = "nats" if figures["unit"] else "acc"
        found[f"{kind}/{category}"] = figures["score"]
        found[f"delta/{category}"] = figures.get("delta")
        found[f"truncated/{category}"] = figures["truncated_share"]
    for length, figures in (entry.get("lengths") or {}).items():
        found[f"acc/tokens-{length}"] = figures["score"]
        found[f"delta/tokens-{length}"] = figures.get("delta")
    overall = entry.get("overall", {})
    found["acc/overall"], found["delta/overall"] = overall.get("score"), overall.get("delta")
    fidelity = entry.get("fidelity", {})
    found |= {key: fidelity.get(key) for key in _FIDELITY}
    for category, figures in fidelity.get("categories", {}).items():
        found[f"kl/{category}"] = figures["kl_mean"]
    for level in entry.get("speed", []):
        at = f"c{level['concurrency']}"
        found[f"tok_s/{at}"] = level["output_tok_s"]
        found[f"speedup/{at}"] = level["output_tok_s_ratio"]
        for key, value in level.items():
            if key.endswith("_ms"):
                found[f"{key}/{at}"] = value
    found |= {key: entry.get("memory", {}).get(key) for key in _MEMORY}
    return {key: float(value) for key, value in found.items() if isinstance(value, int | float)}
