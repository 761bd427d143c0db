"""Quantization arguments as a scheme's file writes them, in both environments."""

from __future__ import annotations

from typing import Any

import torch
from compressed_tensors.quantization import QuantizationArgs


def args_of(spec: dict[str, Any]) -> QuantizationArgs:
    given = {key: value for key, value in spec.items() if value is not None}
    if "scale_dtype" in given:  # zero points are as wide
        dtype = getattr(torch, given["scale_dtype"])
        given |= {"scale_dtype": dtype, "zp_dtype": dtype}
    return QuantizationArgs(**given)
