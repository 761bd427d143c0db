"""``configs/schemes/NAME.yaml``: one way to quantize."""

from __future__ import annotations

from collections.abc import Iterator
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
    strategy: Literal["tensor", "channel", "token", "token_head", "group", "tensor_group", "block"]
    """What shares one scale; ``tensor_group``: a group, whose scale a tensor's scales again;
    ``token_head``: one head of one token in the KV cache."""
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
    cuda_below: float | None = None
    """The first compute capability that has no kernel any more."""
    cuda_exact: bool = False
    """No other compute capability will do."""
    cuda_group_sizes: list[int] | None = None
    """Sizes of weight groups that the CUDA kernel takes; ``null``: any."""


class Scheme(Model):
    """One scheme file."""

    title: str
    """One line for tables."""
    backend: Literal["llm-compressor", "autoawq"] = "llm-compressor"
    """The tool that quantizes; AutoAWQ has an environment and a format of its own."""
    steps: list[Step]
    """Empty where the engine alone quantizes; the checkpoint is then the model's."""
    weights: QuantArgs | None = None
    """``null``: weights stay 16-bit."""
    activations: QuantArgs | None = None
    """``null``: activations stay 16-bit."""
    kv_cache: QuantArgs | None = None
    """``null``: the KV cache stays 16-bit."""
    kv_cache_dtype: str | None = None
    """The engine's flag for a KV cache that it quantizes by itself: no scales are calibrated."""
    engine_activations: bool = False
    """The engine's kernel rounds activations by itself: the checkpoint says nothing of them."""
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

    @model_validator(mode="after")
    def _parts_fit(self) -> Scheme:
        """Combinations that no tool makes or no engine runs, named before hours are spent."""
        problems = list(_misfits(self))
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def saved(self) -> Scheme:
        """What a checkpoint of this scheme says: without what the engine does by itself."""
        kv = self.kv_cache if self.kv_cache_dtype is None else None
        activations = None if self.engine_activations else self.activations
        return self.model_copy(update={"kv_cache": kv, "activations": activations})


def _misfits(scheme: Scheme) -> Iterator[str]:
    weights, activations, kv = scheme.weights, scheme.activations, scheme.kv_cache
    methods: list[str] = [step.method for step in scheme.steps]
    saved = scheme.saved()
    if scheme.backend == "autoawq":
        yield from _autoawq_misfits(scheme, methods)
    elif saved.weights or saved.activations or saved.kv_cache:
        if not methods:
            yield "`steps` is empty: who quantizes?"
        elif methods[-1] not in ("gptq", "rtn"):
            yield f"the last step must round (gptq, rtn); {methods[-1]} only moves scales"
    elif methods:
        yield "the engine quantizes all there is, so `steps` must be empty"
    if weights is None and (activations is not None or set(methods) - {"rtn"}):
        yield "activations and the steps gptq, awq and smoothquant need `weights`"
    if activations is None and "smoothquant" in methods:
        yield "smoothquant prepares activations for rounding, and there are no `activations`"
    if set(methods) & {"gptq", "awq", "smoothquant"} and not scheme.calibrated:
        yield "gptq, awq and smoothquant look at calibration rows: `calibrated` must be true"
    if saved.kv_cache and not scheme.calibrated:
        yield "KV scales come from calibration rows: `calibrated` must be true"
    static = activations is not None and activations.dynamic is not True
    if static and not scheme.calibrated:
        yield "static activation scales come from calibration rows: `calibrated` must be true"
    if weights is not None:
        yield from _weight_misfits(weights, methods)
    if activations is not None:
        if activations.strategy in ("channel", "block", "token_head"):
            yield f"activations cannot have a scale a {activations.strategy}: tokens differ"
        if activations.strategy == "token" and not activations.dynamic:
            yield "a scale a token is found at run time: `activations.dynamic` must be true"
        if activations.actorder:
            yield "`activations.actorder`: columns of weights are ordered, activations are not"
    if kv is not None:
        yield from _kv_misfits(kv, scheme.kv_cache_dtype)
    if scheme.kv_cache_dtype and kv is None:
        yield "`kv_cache_dtype` quantizes the KV cache: say how under `kv_cache`"
    if scheme.engine_activations and activations is None:
        yield "`engine_activations` without `activations`: say how they are rounded"
    for part, args in (("weights", weights), ("activations", activations), ("kv", kv)):
        declared = getattr(scheme.arithmetic, part)
        if (args is None) != (declared == "bf16"):
            yield f"`arithmetic.{part}` is {declared} and the scheme's {part} say otherwise"
        elif args is not None and declared not in _formats(args):
            can = " or ".join(_formats(args))
            yield f"`arithmetic.{part}` is {declared}; the scheme's {part} are {can}"


# The engine's KV kinds → bits, type and granularity of what they round to.
KV_KINDS = {
    "fp8": (8, "float", "tensor"),
    "fp8_e4m3": (8, "float", "tensor"),
    "fp8_per_token_head": (8, "float", "token_head"),
    "int8_per_token_head": (8, "int", "token_head"),
    "int4_per_token_head": (4, "int", "token_head"),
}


def _formats(args: QuantArgs) -> list[str]:
    """Names in ``arithmetic`` of what these arguments round to."""
    if args.type == "int":
        return [f"int{args.num_bits}"]
    if args.num_bits == 8:
        return ["mxfp8" if args.scale_dtype == "uint8" else "fp8"]
    return ["nvfp4" if args.strategy == "tensor_group" else "mxfp4"]


def _kv_misfits(kv: QuantArgs, kind: str | None) -> Iterator[str]:
    asked = (kv.num_bits, kv.type, kv.strategy)
    if kind is None:
        if asked != (8, "float", "tensor"):
            yield "a KV cache with calibrated scales is 8-bit float, a scale a tensor"
    elif kind not in KV_KINDS:
        yield f"`kv_cache_dtype` {kind} is unknown; known: {', '.join(KV_KINDS)}"
    elif asked != KV_KINDS[kind]:
        bits, type_, strategy = KV_KINDS[kind]
        yield f"`kv_cache_dtype` {kind} is {bits}-bit {type_}, a scale a {strategy}"


def _autoawq_misfits(scheme: Scheme, methods: list[str]) -> Iterator[str]:
    weights = scheme.weights
    if methods != ["awq"]:
        yield "AutoAWQ takes one step, awq"
    if weights is None or (weights.num_bits, weights.type, weights.strategy) != (4, "int", "group"):
        yield "AutoAWQ makes 4-bit integer weights in groups"
    if scheme.activations or (scheme.kv_cache and scheme.kv_cache_dtype is None):
        yield "AutoAWQ quantizes weights only"


def _weight_misfits(weights: QuantArgs, methods: list[str]) -> Iterator[str]:
    if weights.strategy in ("token", "token_head"):
        yield f"weights cannot have a scale a {weights.strategy}"
    if weights.dynamic:
        yield "weights are quantized once: `weights.dynamic` must be false"
    if weights.type == "float" and not weights.symmetric:
        yield "float weights have no zero points: `weights.symmetric` must be true"
    if weights.actorder and "gptq" not in methods:
        yield "`weights.actorder` is GPTQ's column order, and there is no gptq step"
    fp4 = weights.type == "float" and weights.num_bits == 4
    if fp4 and (weights.strategy, weights.group_size) not in (("tensor_group", 16), ("group", 32)):
        yield "4-bit float weights are NVFP4's (tensor_group of 16) or MXFP4's (group of 32)"
    if weights.strategy == "block" and weights.type == "int":
        yield "blocks are for float weights: no engine runs integer ones"
