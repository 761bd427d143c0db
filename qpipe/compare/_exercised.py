"""What the engine did for each part of a measurement, and whether that reads a quantized cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qpipe.schemes import quantized_kv

__all__ = ["exercises", "kv_part"]

# Two kernels round differently: less than this factor is no other cache, nor is less than this KL.
_FACTOR, _NOTHING = 4.0, 1e-5

_UNKNOWN = (
    "whether prefill reads the {format} keys and values is not known: it was not probed, or the"
    " baseline's cache is quantized too"
)
_SAME = (
    "prefill and decode read the same {format} keys and values: KL between the two {own},"
    " the baseline's own {base}"
)
_OTHER = (
    "prefill does not read the {format} keys and values that decode reads: KL between the two"
    " {own}, the baseline's own {base}; likelihoods and KL on prompts do not exercise them, only"
    " generated answers do"
)


def exercises(
    results: Mapping[str, Any], fidelity: Mapping[str, Any], stability: Mapping[str, Any]
) -> dict[str, dict[str, int]]:
    """Tokens prefilled, read from the prefix cache and decoded, by category and other part."""
    found: dict[str, dict[str, int]] = {}
    for task in results.get("tasks", {}).values():
        _add(found.setdefault(str(task.get("category")), {}), task.get("exercises"))
    # No category's name has a space.
    for name, record in (("fidelity texts", fidelity), ("sampled answers", stability)):
        _add(found.setdefault(name, {}), record.get("exercises"))
    return {name: counts for name, counts in found.items() if any(counts.values())}


def _add(total: dict[str, int], more: Mapping[str, int] | None) -> None:
    for key, count in (more or {}).items():
        total[key] = total.get(key, 0) + count


def kv_part(own: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the fidelity records of a variant and the baseline say of its quantized KV cache.

    ``prefill_reads_cache`` is false where decode and prefill differ by more than those of the
    baseline do: by their intervals, and by a factor that no change of kernel explains. It is
    ``None`` where there is nothing to judge by. ``said`` puts it in a sentence. ``None`` in all
    where nothing is quantized.
    """
    format = quantized_kv(own.get("provenance") or {})
    if format is None:
        return None
    probe, floor = own.get("decode_vs_prefill"), base.get("decode_vs_prefill")
    if not probe or not floor or quantized_kv(base.get("provenance") or {}):
        reads, said = None, _UNKNOWN
    else:
        differs = probe["kl_ci_low"] > floor["kl_ci_high"]
        reads = not (differs and probe["kl_mean"] > max(_FACTOR * floor["kl_mean"], _NOTHING))
        said = _SAME if reads else _OTHER
    return {
        "format": format,
        "prefill_reads_cache": reads,
        "said": said.format(format=format, own=_interval(probe), base=_interval(floor)),
        "decode_vs_prefill": probe,
    }


def _interval(probe: Mapping[str, Any] | None) -> str:
    if not probe:
        return "unknown"
    return f"{probe['kl_mean']:.2g} [{probe['kl_ci_low']:.2g}, {probe['kl_ci_high']:.2g}]"
