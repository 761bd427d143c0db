"""Memory that quantizing and serving take, in bytes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from qpipe.config import Scheme
from qpipe.hardware import Hardware
from qpipe.model import Architecture, Linear
from qpipe.room import GIB, RUNTIME
from qpipe.schemes import WIDE_BYTES, quantized_modules

__all__ = ["QuantizingMemory", "engine_bytes", "quantizing_memory"]

ENGINE = 2 * GIB
"""vLLM beside weights and KV cache."""
FLOAT32 = 4


@dataclass(frozen=True)
class QuantizingMemory:
    """Peak bytes of llm-compressor's sequential pipeline."""

    weights: int
    """The model at the type it is computed in: surely needed."""
    host: int
    """Main memory, weights included."""
    gpu: int
    """GPU memory; 0 without one."""


def quantizing_memory(
    architecture: Architecture, scheme: Scheme, rows: int, tokens: int, hardware: Hardware
) -> QuantizingMemory:
    """Weights, calibration's hidden states, and what the method keeps of one block.

    A checkpoint is read back into the model at the type it is computed in here, so the weights are
    needed for a ready-made one too; AutoAWQ computes in float32 on every CPU.
    On CUDA the weights and hidden states stay in main memory; the GPU holds one block, what the
    method keeps of it, and the activations of one row.
    """
    autoawq = scheme.backend == "autoawq" and bool(scheme.steps)
    native = hardware.device == "cuda" or ("avx512_bf16" in hardware.cpu_flags and not autoawq)
    wide = WIDE_BYTES if native else FLOAT32
    weights = architecture.values * wide
    quantized = quantized_modules(scheme, architecture.linears)
    methods = {step.method for step in scheme.steps}
    calibration = rows * tokens if scheme.calibrated and scheme.steps else 0
    states = 2 * calibration * architecture.hidden * wide  # inputs and outputs of a block
    kept = _hessians(quantized) if "gptq" in methods else 0
    widest = max((module.in_features for module in architecture.linears), default=0)
    if "awq" in methods:
        # Inputs of attention, the MLP and its last product; outputs, true and quantized.
        states += calibration * (4 * architecture.hidden + widest) * wide
    row = tokens * (architecture.vocabulary + 4 * widest) * wide if calibration else 0
    if not native or hardware.device == "cpu":
        return QuantizingMemory(weights, RUNTIME + weights + states + kept + row, 0)
    block = max(_by_block(architecture.linears).values(), default=0) * wide
    gpu = RUNTIME + block + kept + row if calibration else 0
    return QuantizingMemory(weights, RUNTIME + weights + states, gpu)


def engine_bytes(weights: float, kv: float) -> float:
    """The engine with its weights and its KV cache."""
    return ENGINE + weights + kv


def _hessians(quantized: list[Linear]) -> int:
    """Float32 Hessians of the block with the largest, and copies of the largest module's."""
    blocks: Counter[str] = Counter()
    for module in quantized:
        blocks[_block(module.name)] += module.in_features**2
    largest = max((module.in_features for module in quantized), default=0)
    most = max((module.in_features * module.out_features for module in quantized), default=0)
    return FLOAT32 * (max(blocks.values(), default=0) + 2 * largest**2 + 3 * most)


def _by_block(modules: tuple[Linear, ...]) -> Counter[str]:
    """Block → its linear modules' values."""
    blocks: Counter[str] = Counter()
    for module in modules:
        blocks[_block(module.name)] += module.in_features * module.out_features
    return blocks


def _block(module: str) -> str:
    found = re.match(r".*?\.\d+(?=\.)", module)
    return found.group() if found else module
