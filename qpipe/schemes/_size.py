"""Bytes of a checkpoint, from shapes and a scheme."""

from __future__ import annotations

from math import ceil, prod

from qpipe.config import QuantArgs, Scheme
from qpipe.model import Architecture, Linear
from qpipe.schemes._preflight import quantized_modules
from qpipe.schemes._split import packed

__all__ = ["WIDE_BYTES", "checkpoint_bytes"]

WIDE_BYTES = 2
"""Of an unquantized value, as checkpoints and twins are saved."""
# compressed-tensors has formats that pack FP4 for these groups: NVFP4's and MXFP4's.
FP4_GROUPS = (16, 32)
INT32, INT64 = 4, 8


def checkpoint_bytes(architecture: Architecture, scheme: Scheme) -> int:
    """Bytes of all tensors of the checkpoint that the scheme makes.

    Formats as compressed-tensors 0.19 infers them: packed into int32 for integer weights alone,
    two values a byte for NVFP4 and MXFP4, a byte a value otherwise. AutoAWQ has its own.
    """
    scheme = scheme.saved()
    values, total = architecture.values, 0
    for module in quantized_modules(scheme, architecture.linears):
        values -= module.out_features * module.in_features
        total += _quantized(scheme, module)
    if scheme.kv_cache is not None:
        total += architecture.layers * 2 * WIDE_BYTES  # a scale of keys and one of values
    return values * WIDE_BYTES + total


def _quantized(scheme: Scheme, module: Linear) -> int:
    """Bytes of one module's values, scales and zero points."""
    args = scheme.weights
    assert args is not None
    outputs, inputs = module.out_features, module.in_features
    scales = _scales(args, outputs, inputs)
    if scheme.backend == "autoawq":
        # Weights and zero points, always there, are packed along outputs.
        packed_row = ceil(outputs * args.num_bits / 32) * INT32
        return packed_row * (inputs + scales // outputs) + scales * WIDE_BYTES
    total = scales * (1 if args.scale_dtype else WIDE_BYTES)
    if packed(scheme):
        total += outputs * ceil(inputs * args.num_bits / 32) * INT32 + 2 * INT64  # and the shape
        if not args.symmetric:
            total += ceil(outputs * args.num_bits / 32) * INT32 * (scales // outputs)
    elif args.num_bits == 4 and args.type == "float" and args.group_size in FP4_GROUPS:
        total += outputs * inputs // 2
    else:
        total += outputs * inputs + (0 if args.symmetric else scales)
    if args.strategy == "tensor_group":
        total += WIDE_BYTES
    if scheme.activations is not None and scheme.activations.dynamic is not True:
        total += WIDE_BYTES
    return total


def _scales(args: QuantArgs, outputs: int, inputs: int) -> int:
    if args.strategy == "tensor":
        return 1
    if args.block_structure:
        return prod(
            ceil(size / part)
            for size, part in zip((outputs, inputs), args.block_structure, strict=True)
        )
    return outputs * (ceil(inputs / args.group_size) if args.group_size else 1)
