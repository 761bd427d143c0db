"""Whether this machine's engine runs a scheme natively, can only simulate it, or neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from qpipe.config import Arithmetic, Config, Scheme
from qpipe.hardware import Hardware

__all__ = ["WIDE", "Mode", "kv_format", "mode_of", "quantized_kv", "variant_mode"]

WIDE = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
"""The engine's types of unquantized numbers → their names in records."""
# vLLM 0.32's CPU kernel cuts the digits that FP8 has no room for; a GPU rounds to nearest.
CPU_KV = {"fp8": "fp8-truncated", "fp8_e4m3": "fp8-truncated"}


@dataclass(frozen=True)
class Mode:
    """How a variant runs here, and why."""

    mode: Literal["native", "simulated", "unsupported"]
    reason: str
    arithmetic: Arithmetic

    def record(self) -> dict[str, Any]:
        """For provenance."""
        body = asdict(self) | {"arithmetic": self.arithmetic.model_dump()}
        return {"mode_reason" if key == "reason" else key: value for key, value in body.items()}


def variant_mode(config: Config, variant: str, hardware: Hardware) -> Mode:
    """The mode of a release's variant on one machine.

    Raises:
        ConfigError: no such variant.
    """
    scheme, source = config.scheme_of(variant), config.release.source_of(variant)
    return mode_of(scheme, hardware, simulate=source is not None and source.simulate)


def mode_of(scheme: Scheme | None, hardware: Hardware, simulate: bool = False) -> Mode:
    """The mode of a scheme (``None``: the unquantized baseline) on one machine.

    ``simulate`` has it imitated though the engine has a kernel.
    """
    wide = WIDE[hardware.native_dtype]
    if scheme is None:
        here = Arithmetic(weights=wide, activations=wide, kv=wide)
        return Mode("native", "unquantized", here)
    lacking = "its variant says so" if simulate else _lacking(scheme, hardware)
    declared = scheme.arithmetic
    # What is simulated is the scheme, not one kernel's way of it.
    if lacking is None and hardware.device == "cpu" and scheme.cpu_arithmetic is not None:
        declared = scheme.cpu_arithmetic
    here = Arithmetic.model_validate(
        {key: wide if value == "bf16" else value for key, value in declared.model_dump().items()}
    )
    if lacking is None:
        here = here.model_copy(update={"kv": kv_format(here.kv, hardware)})
        return Mode("native", "the engine has a kernel for it here", here)
    # Keys and values are rounded inside the CPU engine's attention; CUDA's is another.
    kv_reachable = scheme.kv_cache is None or hardware.device == "cpu"
    if kv_reachable:
        what = ", ".join(part for part, runs in here.model_dump().items() if runs != wide)
        return Mode("simulated", f"{lacking}; rounded: {what}; products are {wide}", here)
    return Mode("unsupported", f"{lacking}, and its KV cache cannot be simulated yet", here)


def kv_format(kind: str, hardware: Hardware) -> str:
    """What this machine's engine makes of keys and values of one kind."""
    return CPU_KV.get(kind, kind) if hardware.device == "cpu" else kind


def quantized_kv(provenance: Mapping[str, Any]) -> str | None:
    """The format of keys and values in the cache that ran; ``None`` where it is not quantized."""
    kv = (provenance.get("arithmetic") or {}).get("kv")
    return None if kv in (None, *WIDE, *WIDE.values()) else str(kv)


def _lacking(scheme: Scheme, hardware: Hardware) -> str | None:
    needs = scheme.native
    if hardware.device == "cuda":
        if needs.cuda_capability is None:
            return "no CUDA kernel"
        if (hardware.cuda_capability or 0.0) < needs.cuda_capability:
            return f"needs compute capability {needs.cuda_capability}"
        if needs.cuda_below is not None and (hardware.cuda_capability or 0.0) >= needs.cuda_below:
            return f"needs a compute capability below {needs.cuda_below}"
        if needs.cuda_exact and hardware.cuda_capability != needs.cuda_capability:
            return f"needs compute capability {needs.cuda_capability} and no other"
        sizes, weights = needs.cuda_group_sizes, scheme.weights
        if sizes is not None and weights is not None and weights.group_size not in sizes:
            return f"its CUDA kernel takes groups of {' or '.join(map(str, sizes))}"
        return None
    if needs.cpu_flags is None:
        return "no CPU kernel"
    missing = [flag for flag in needs.cpu_flags if flag not in hardware.cpu_flags]
    return f"this CPU has no {', '.join(missing)}" if missing else None
