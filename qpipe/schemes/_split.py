"""What sizes must divide: groups, blocks, packed integers, and the devices of tensor parallelism.

The rules are those that vLLM 0.32 stops on: ``QKVParallelLinear`` for heads, ``divide`` for other
outputs, ``validate_fp8_block_shape`` for blocks, ``CompressedTensorsWNA16`` for groups.
"""

from __future__ import annotations

from collections.abc import Iterator

from qpipe.config import Scheme
from qpipe.errors import Fault
from qpipe.model import Architecture, Linear

__all__ = ["RELEASE", "head_faults", "misfits", "packed"]

# Tensor parallelism gives each device a part of these modules' inputs, and of these' outputs.
SPLIT_BY_INPUTS = ("o_proj", "down_proj")
SPLIT_BY_OUTPUTS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "gate_up_proj")
KEYS_AND_VALUES = ("k_proj", "v_proj")

RELEASE = "configs/release.yaml"


def head_faults(architecture: Architecture, devices: int) -> Iterator[Fault]:
    """Heads that do not split over the devices.

    Fewer key-value heads than devices are copied, each to equally many.
    """
    heads, kv_heads = architecture.heads or devices, architecture.kv_heads or devices
    if not _heads_fit(heads, kv_heads, devices):
        what = f"{heads} attention heads" if heads % devices else f"{kv_heads} key-value heads"
        fitting = ", ".join(str(n) for n in range(1, heads + 1) if _heads_fit(heads, kv_heads, n))
        message = f"{what} do not split over {devices} devices"
        yield Fault(RELEASE, "serve.tensor_parallel_size", message, f"take one of {fitting}")


def _heads_fit(heads: int, kv_heads: int, devices: int) -> bool:
    return heads % devices == 0 and (kv_heads % devices == 0 or devices % kv_heads == 0)


def misfits(
    file: str, scheme: Scheme, module: Linear, devices: int, architecture: Architecture | None
) -> Iterator[tuple[int, Fault]]:
    """Sizes of a quantized module that something does not divide, each with its fault."""
    args = scheme.weights
    if args is None:
        return

    def fault(key: str, part: int, size: int, side: str, unit: str = "") -> tuple[int, Fault]:
        message = f"{part} does not divide {size} {side} ({module.name})"
        mend = f"take {_near(size, part)}{unit}, or ignore the module"
        return size, Fault(file, f"weights.{key}", message, mend)

    inputs, outputs = module.in_features, module.out_features
    if args.group_size and inputs % args.group_size:
        yield fault("group_size", args.group_size, inputs, "inputs")
        return
    last = module.name.rpartition(".")[2]
    by_inputs, by_outputs = (
        devices > 1 and last in names for names in (SPLIT_BY_INPUTS, SPLIT_BY_OUTPUTS)
    )
    kv_heads = None if architecture is None else architecture.kv_heads
    if by_outputs and kv_heads and last in KEYS_AND_VALUES:
        outputs = outputs // kv_heads * max(1, kv_heads // devices)
    elif by_inputs or by_outputs:
        whole, side = (inputs, "inputs") if by_inputs else (outputs, "outputs")
        if whole % devices:
            message = f"{whole} {side} do not split over {devices} devices ({module.name})"
            mend = f"take {_near(whole, devices)}"
            yield whole, Fault(RELEASE, "serve.tensor_parallel_size", message, mend)
            return
        if by_inputs:
            inputs //= devices
        else:
            outputs //= devices
    each = f" on each of {devices} devices"
    in_side = f"inputs{each if by_inputs else ''}"
    out_side = f"outputs{each if by_outputs else ''}"
    if args.group_size and inputs % args.group_size:
        yield fault("group_size", args.group_size, inputs, in_side)
    if args.block_structure:
        rows, columns = args.block_structure
        if outputs % rows:
            yield fault("block_structure", rows, outputs, out_side, " rows")
        # On one device the last block of columns may be a part.
        if by_inputs and inputs % columns:
            yield fault("block_structure", columns, inputs, in_side, " columns")
    if packed(scheme.saved()):
        values = 32 // args.num_bits
        # Weights are packed along inputs, zero points along outputs.
        sizes = [(inputs, in_side)] if args.symmetric else [(inputs, in_side), (outputs, out_side)]
        for size, side in sizes:
            if size % values:
                message = f"{values} values an int32 do not divide {size} {side} ({module.name})"
                mend = "spread over fewer devices, or ignore the module"
                yield size, Fault(file, "weights.num_bits", message, mend)


def packed(scheme: Scheme) -> bool:
    """Whether weights are stored as int32 that hold several values each (``pack-quantized``).

    compressed-tensors 0.19 packs integer weights where activations are not quantized; 4-bit ones
    beside rounded activations are packed because the engine reads them so.
    """
    weights, activations = scheme.weights, scheme.saved().activations
    if weights is None or weights.type != "int":
        return False
    return activations is None or weights.num_bits == 4


def _near(size: int, wanted: int) -> int:
    """The largest power of two up to ``wanted`` that divides ``size``."""
    candidate = 1
    while candidate * 2 <= wanted and size % (candidate * 2) == 0:
        candidate *= 2
    return candidate
