"""About how long quantizing takes: what the methods compute, divided by a measured throughput."""

from __future__ import annotations

import time
from collections.abc import Iterable

from qpipe.config import Scheme
from qpipe.hardware import Hardware
from qpipe.model import Architecture, Linear
from qpipe.schemes import needs_rows, quantized_modules

__all__ = ["seconds_to_quantize", "throughput"]

# Calibrated on SmolLM2-135M (2 cores, llm-compressor 0.14): forward passes reach half of what
# numpy's products do, and a run starts, loads and saves in 12 s.
EFFICIENCY = 0.5
START_S = 12.0
LOAD_S = 2e-8
"""To read, convert, write and check a stored value."""
ROUNDING_S = 4e-9
"""To round a weight once."""
COLUMN_S = {"cpu": 4e-4, "cuda": 2e-5}
"""GPTQ's step from one column to the next: Python on CPU, a Triton kernel on CUDA."""
AMX_SPEEDUP = 4.0
"""bfloat16 products with AMX, against the float32 ones that are measured."""
CUDA_THROUGHPUT = 1e14
"""FLOP/s of 16-bit products on a data-centre GPU: assumed, as nothing here can measure it."""
CUDA_SPEEDUP = 10.0
"""Of rounding weights, bound by memory."""
PASSES = 2
"""llm-compressor runs each block once for statistics and once more for its quantized outputs."""


def throughput(hardware: Hardware) -> float:
    """FLOP/s of products here: of numpy's float32 ones in 0.2 s, or what a GPU is assumed to reach.

    One core is measured, at its best: threads of small products wait for each other where other
    work shares the cores, and tell anything.
    """
    if hardware.device == "cuda":
        return CUDA_THROUGHPUT
    import numpy as np

    count, size = 64, 64  # one thread computes products this small
    matrices = np.random.default_rng(0).random((count, size, size), dtype=np.float32)
    best, end = float("inf"), time.perf_counter() + 0.2
    while time.perf_counter() < end:
        started = time.perf_counter()
        matrices @ matrices
        best = min(best, time.perf_counter() - started)
    amx = AMX_SPEEDUP if "amx_bf16" in hardware.cpu_flags else 1.0
    return hardware.cores * amx * 2 * count * size**3 / best


def seconds_to_quantize(
    architecture: Architecture,
    scheme: Scheme,
    rows: int,
    tokens: int,
    flops_per_second: float,
    device: str = "cpu",
) -> float:
    """Seconds of ``qpipe quantize`` on ``rows`` of ``tokens`` each: a size, not a promise.

    GPTQ: Frantar et al., ICLR 2023. AWQ: Lin et al., MLSys 2024. SmoothQuant and scales of the KV
    cache or of activations are forward passes; rounding to nearest passes over the weights.
    """
    quantized = quantized_modules(scheme, architecture.linears)
    weights = sum(module.out_features * module.in_features for module in quantized)
    rounding = ROUNDING_S / (CUDA_SPEEDUP if device == "cuda" else 1.0)
    speed = flops_per_second * EFFICIENCY
    seconds = START_S + LOAD_S * architecture.values
    for step in scheme.steps:
        if needs_rows(step, scheme):
            seconds += PASSES * _forward(architecture, rows, tokens) / speed
        if step.method == "rtn":
            seconds += rounding * weights
        elif step.method == "gptq":
            seconds += _gptq(quantized, rows * tokens) / speed
            seconds += COLUMN_S[device] * sum(module.in_features for module in quantized)
        elif step.method == "awq":
            searched = 1 + int(step.params.get("n_grid", 20))
            seconds += searched * _awq(architecture, quantized, rows, tokens) / speed
            seconds += searched * rounding * weights
    return seconds


def _forward(architecture: Architecture, rows: int, tokens: int) -> float:
    """FLOPs of one pass: two a weight and token, and attention's products of every two tokens."""
    head = architecture.vocabulary * architecture.hidden
    weights = head + sum(each.out_features * each.in_features for each in architecture.linears)
    return 2.0 * weights * rows * tokens + _attention(architecture, rows, tokens)


def _attention(architecture: Architecture, rows: int, tokens: int) -> float:
    return 4.0 * architecture.layers * architecture.hidden * rows * tokens**2


def _gptq(quantized: Iterable[Linear], tokens: int) -> float:
    """Hessians, their factors, and the errors that each column hands on."""
    return sum(
        2.0 * module.in_features**2 * (tokens + module.in_features + module.out_features)
        for module in quantized
    )


def _awq(architecture: Architecture, quantized: Iterable[Linear], rows: int, tokens: int) -> float:
    """One grid point: attention, the MLP, and the MLP's last product once more by itself."""
    weights = sum(
        module.out_features * module.in_features * (2 if module.name.endswith("down_proj") else 1)
        for module in quantized
    )
    return 2.0 * weights * rows * tokens + _attention(architecture, rows, tokens)
