"""Prints how the CPU engine's FP8 cache holds 16-bit values: share equal to each way of rounding."""

import json

import torch
from vllm import _custom_ops as ops
from vllm.platforms import current_platform

TOKENS, HEAD = 32, 64

current_platform.import_kernels()
torch.manual_seed(0)
values = (torch.randn(TOKENS, 1, HEAD) * 3).bfloat16()
scale = 0.037
keys, cache = (torch.zeros(1, 1, TOKENS, HEAD, dtype=torch.uint8) for _ in range(2))
ops.cpu_attn_reshape_and_cache(
    values, values, keys, cache, torch.arange(TOKENS), "vec", scale, scale, "fp8"
)
wanted = (values.float() / scale).clamp(-448, 448)
nearest = wanted.to(torch.float8_e4m3fn)
# One step down in magnitude is one less in the bits.
too_far = nearest.float().abs() > wanted.abs()
cut = (nearest.view(torch.uint8) - too_far.to(torch.uint8)).view(torch.float8_e4m3fn)


def share(other: torch.Tensor) -> float:
    # The cache's layout is the engine's own: sorted, the values must be the same.
    mine, theirs = (
        each.view(torch.float8_e4m3fn).float().flatten().sort().values for each in (cache, other)
    )
    return float((mine == theirs).float().mean())


print(json.dumps({"fp8": share(nearest), "fp8-truncated": share(cut)}))
