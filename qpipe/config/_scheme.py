"""``configs/schemes/NAME.yaml``: one way to quantize."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from qpipe.config._base import Model
from qpipe.records import digest

__all__ = ["Arithmetic", "QuantArgs", "Scheme", "Step"]


class QuantArgs(Model):
    """How one kind of tensor is quantized, in the words of compressed-tensors."""

    num_bits: Literal[4, 8]
    """Bits a value."""
    type: Literal["int", "float"]
    """Number format."""
    strategy: Literal["tensor", "channel", "token", "group", "tensor_group", "block"]
    """What shares one scale; ``tensor_group``: a group, whose scale a tensor's scales again."""
    group_size: int | None = Field(default=None, gt=0)
    """Input channels that share a scale, for ``group`` and ``tensor_group``."""
    block_structure: list[int] | None = Field(default=None, min_length=2, max_length=2)
    """[output, input] channels that share a scale, for ``block``."""
    symmetric: bool = True
    """False: with zero points."""
    dynamic: bool | Literal["local"] = False
    """Scales found at run time; ``local``: those of groups, the tensor's own is calibrated."""
    scale_dtype: Literal["float8_e4m3fn", "uint8"] | None = None
    """Format of group scales, where it is not a wide one: NVFP4's FP8, MXFP4's exponent."""
    observer: str | None = None
    """What finds static scales from calibration (``minmax``, ``static_minmax``, ``mse`` …)."""
    actorder: Literal["static", "weight"] | None = None
    """GPTQ column order; the engine refuses ``group``."""

    @model_validator(mode="after")
    def _sizes_fit_strategy(self) -> QuantArgs:
        if (self.strategy in ("group", "tensor_group")) != (self.group_size is not None):
            raise ValueError("group_size goes with a strategy of groups, and only with one")
        if (self.strategy == "block") != (self.block_structure is not None):
            raise ValueError("block_structure goes with strategy 'block', and only with it")
        return self


class Step(Model):
    """One modifier of the recipe, in order of application."""

    method: Literal["gptq", "awq", "smoothquant", "rtn"]
    """``rtn`` rounds to nearest; it also carries KV scales and FP8."""
    params: dict[str, Any] = Field(default_factory=dict)
    """The modifier's own parameters (``smoothing_strength``, ``dampening_frac``, ``n_grid`` …)."""


class Arithmetic(Model):
    """Number formats that an engine computes with."""

    weights: str
    activations: str
    kv: str = "bf16"
    """KV cache."""


Format = Annotated[str, StringConstraints(pattern=r"^(bf16|(int|fp|mxfp|nvfp)[1-8])$")]
"""``int4``, ``fp8`` …; ``bf16`` stands for the 16-bit format of the machine."""


class Declared(Arithmetic):
    """What a scheme must be computed with."""

    weights: Format
    activations: Format
    kv: Format = "bf16"


class Requirement(Model):
    """What hardware must have for the scheme to run natively."""

    cpu_flags: list[str] | None = None
    """CPU features as /proc/cpuinfo names them; ``null``: this engine's CPU build cannot run it."""
    cuda_capability: float | None = None
    """Lowest compute capability; ``null``: not on CUDA."""


class Scheme(Model):
    """One scheme file."""

    title: str
    """One line for tables."""
    backend: Literal["llm-compressor"] = "llm-compressor"
    steps: list[Step] = Field(min_length=1)
    weights: QuantArgs | None = None
    """``null``: weights stay 16-bit."""
    activations: QuantArgs | None = None
    """``null``: activations stay 16-bit."""
    kv_cache: QuantArgs | None = None
    """``null``: the KV cache stays 16-bit."""
    ignore: list[str] = Field(default_factory=lambda: ["lm_head"])
    """Modules left at 16 bits; ``re:`` starts a regular expression."""
    calibrated: bool = True
    """The steps look at calibration rows."""
    calibration_samples: int | None = Field(default=None, gt=0)
    """Rows this scheme takes from the set; all when absent."""
    arithmetic: Declared
    """What the engine must really compute with."""
    cpu_arithmetic: Declared | None = None
    """What the CPU kernel computes with where it differs."""
    native: Requirement = Requirement()
    env: dict[str, str] = Field(default_factory=dict)
    """Engine environment that pins the arithmetic."""
    kernels: list[str] = Field(default_factory=list)
    """Engine-log names of which one must appear when the scheme runs natively on CPU."""

    def hash(self) -> str:
        """SHA-256 (hex) of all that the file says."""
        return digest(self.model_dump())

    @model_validator(mode="after")
    def _quantizes_something(self) -> Scheme:
        if self.weights is None and self.activations is None and self.kv_cache is None:
            raise ValueError("a scheme quantizes weights, activations or the KV cache")
        return self
