"""Quantize environment: what calibration and other texts put into every quantized linear.

For each set of token rows the unquantized model runs once, and each module's input gets, a channel,
its largest absolute value (what scales of activations are made of) and its second moment (the
diagonal of GPTQ's Hessian, E[x²]; Frantar et al. 2023). The first position of a row is left out:
it is an attention sink with huge values whatever the text is (Xiao et al. 2024).
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
from _protocol import Refusal, progress, run, versions
from transformers import AutoModelForCausalLM

BATCH_TOKENS = 2048


@dataclass
class Channels:
    """One module's input over a set: per channel the maximum of |x| and the sum of x²."""

    largest: torch.Tensor
    squares: torch.Tensor
    tokens: int

    @property
    def moments(self) -> torch.Tensor:
        return self.squares / self.tokens


@torch.inference_mode()
def work(request: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(
        request["model"],
        # Half the memory where products of bfloat16 are no slower.
        dtype=torch.bfloat16 if device == "cuda" else torch.float32,
        trust_remote_code=request["trust_remote_code"],
        use_safetensors=True,
    )
    model = model.to(device).eval()
    there = dict(model.named_modules())
    modules = {name: there[name] for name in request["modules"] if name in there}
    if not modules:
        raise Refusal(
            "none of the quantized modules is a module of the loaded model",
            "report the model's architecture: its activations cannot be watched",
        )
    seen = {}
    for name, rows in request["sets"].items():
        progress(f"activations of {name}: {sum(map(len, rows))} tokens")
        seen[name] = observe(model, modules, rows)
    own = seen.pop("calibration")
    return {
        "groups": {
            name: compare(channels, own, _rest(seen, name, request["kin"]), request["factor"])
            for name, channels in seen.items()
        },
        "modules": len(modules),
        "seconds": time.monotonic() - started,
        "versions": versions("torch", "transformers"),
    }


def observe(model: Any, modules: dict[str, Any], rows: list[list[int]]) -> dict[str, Channels]:
    found: dict[str, Channels] = {}

    def hook(name: str) -> Any:
        def add(_: Any, args: tuple[torch.Tensor, ...]) -> None:
            x = args[0][:, 1:].flatten(0, 1).float()
            largest, squares = x.abs().amax(0), x.square().sum(0).double()
            old = found.get(name)
            if old is None:
                found[name] = Channels(largest, squares, len(x))
            else:
                joined = torch.maximum(old.largest, largest), old.squares + squares
                found[name] = Channels(*joined, old.tokens + len(x))

        return add

    hooks = [each.register_forward_pre_hook(hook(name)) for name, each in modules.items()]
    by_length: dict[int, list[list[int]]] = defaultdict(list)
    for row in rows:
        by_length[len(row)].append(row)  # no padding, whose activations would count
    for length, alike in by_length.items():
        size = max(1, BATCH_TOKENS // length)
        for start in range(0, len(alike), size):
            ids = torch.tensor(alike[start : start + size], device=model.device)
            model.base_model(ids, use_cache=False)
    for each in hooks:
        each.remove()
    return found


def compare(
    group: dict[str, Channels],
    calibration: dict[str, Channels],
    rest: dict[str, Channels] | None,
    factor: float,
) -> dict[str, Any]:
    """Means over modules; ``exceeding`` is a share of channels, ``similarity`` from 0 to 1.

    ``_reference`` is the same against all sets of other categories, ``None`` without any.
    """
    exceeding = {name: _exceeding(group[name], calibration[name], factor) for name in group}
    similar = {name: _similarity(group[name], calibration[name]) for name in group}
    worst = max(exceeding, key=exceeding.__getitem__)
    least = min(similar, key=similar.__getitem__)
    return {
        "tokens": next(iter(group.values())).tokens,
        "exceeding": _mean(exceeding.values()),
        "exceeding_reference": rest
        and _mean(_exceeding(group[name], rest[name], factor) for name in group),
        "worst_module": worst,
        "worst_exceeding": exceeding[worst],
        "similarity": _mean(similar.values()),
        "similarity_reference": rest and _mean(_similarity(group[n], rest[n]) for n in group),
        "least_similar_module": least,
        "least_similarity": similar[least],
    }


def _rest(
    seen: dict[str, dict[str, Channels]], name: str, kin: dict[str, str]
) -> dict[str, Channels] | None:
    """All sets of another category than that of ``name``, as one."""
    others = [channels for key, channels in seen.items() if kin[key] != kin[name]]
    if not others:
        return None
    return {
        module: Channels(
            torch.stack([other[module].largest for other in others]).amax(0),
            torch.stack([other[module].squares for other in others]).sum(0),
            sum(other[module].tokens for other in others),
        )
        for module in others[0]
    }


def _exceeding(group: Channels, of: Channels, factor: float) -> float:
    return float((group.largest > factor * of.largest).float().mean())


def _similarity(a: Channels, b: Channels) -> float:
    """Bhattacharyya's coefficient of the second moments, each profile scaled to sum 1."""
    p, q = a.moments / a.moments.sum(), b.moments / b.moments.sum()
    return float((p * q).sqrt().sum())


def _mean(values: Any) -> float:
    values = list(values)
    return sum(values) / len(values)


if __name__ == "__main__":
    run(work)
