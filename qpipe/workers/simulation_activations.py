"""Serve environment: a vLLM plugin that rounds activations as a scheme does, before each product.

vLLM loads it by its entry point (``qpipe_simulation-1.dist-info`` beside this file). A dequantized
twin names ``METHOD`` in its config.json, with the scheme's activation arguments, the modules that
they concern and, where scales are static, these.
"""

from __future__ import annotations

from typing import Any

import torch
from _args import args_of
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import fake_quantize
from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm.model_executor.layers.quantization import register_quantization_config
from vllm.model_executor.layers.quantization.base_config import QuantizationConfig

METHOD = "qpipe-simulation"
E2M1_MAX, INT8_MAX = 6.0, 127.0
calls: dict[str, int] = {}
"""By module as the engine names it: products of rounded activations."""


class Rounded(UnquantizedLinearMethod):
    """An unquantized product of rounded activations."""

    def __init__(self, module: str, args: QuantizationArgs, scales: dict[str, float]) -> None:
        super().__init__()
        self._module = module
        self._args = args
        self._scales = scales

    def apply(self, layer: Any, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        calls[self._module] = calls.get(self._module, 0) + 1
        return super().apply(layer, _rounded(x, self._args, self._scales), bias)


def _rounded(x: torch.Tensor, args: QuantizationArgs, scales: dict[str, float]) -> torch.Tensor:
    # In float32, as the engine's kernels find scales; and with one more dimension, as the library
    # takes rows for one token each only of three.
    wide = x.float().unsqueeze(0)
    missing = -wide.shape[-1] % args.group_size if args.group_size else 0
    wide = torch.nn.functional.pad(wide, (0, missing))  # zeros leave a group's scale as it is
    shared = _tensor(scales, "input_global_scale", wide)
    if args.dynamic:
        scale, zero_point = _dynamic(wide, args, shared)
    else:
        scale = _tensor(scales, "input_scale", wide)
        zero_point = _tensor(scales, "input_zero_point", wide)
    rounded = fake_quantize(wide, scale, zero_point, args, global_scale=shared)[0]
    return rounded[:, : x.shape[-1]].to(x.dtype)


def _dynamic(
    wide: torch.Tensor, args: QuantizationArgs, shared: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Scales as the engine's kernels find them, where the library's are others."""
    if args.scale_dtype == torch.uint8 and args.num_bits == 4:
        # FlashInfer's mxfp4_quantize: the power of two above max / 6, so that nothing is cut.
        top = wide.unflatten(-1, (-1, args.group_size)).abs().amax(-1) / E2M1_MAX
        mantissa, exponent = torch.frexp(top)  # in [0.5, 1)
        exponent = torch.where(mantissa == 0.5, exponent - 1, exponent)
        return torch.where(top > 0, torch.exp2(exponent.float()), 1.0), None
    if args.type == "int" and args.num_bits == 8 and args.symmetric and args.strategy == "token":
        top = wide.abs().amax(-1, keepdim=True) / INT8_MAX  # vLLM's dynamic_scaled_int8_quant
        return torch.where(top > 0, top, 1.0), None
    return compute_dynamic_scales_and_zp(wide, args, None, shared)


def _tensor(scales: dict[str, float], name: str, like: torch.Tensor) -> torch.Tensor | None:
    return torch.tensor([scales[name]], device=like.device) if name in scales else None


class SimulatedConfig(QuantizationConfig):
    """What a twin's config.json says under ``quantization_config``."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.args = args_of(body["activations"])
        self.modules = set(body["modules"])
        self.scales: dict[str, dict[str, float]] = body["scales"]

    def get_name(self) -> str:
        return METHOD

    def get_supported_act_dtypes(self) -> list[torch.dtype]:
        return [torch.float32, torch.bfloat16, torch.float16]

    @classmethod
    def get_min_capability(cls) -> int:
        return 0

    @staticmethod
    def get_config_filenames() -> list[str]:
        return []

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SimulatedConfig:
        return cls(config)

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> Any:
        if not isinstance(layer, LinearBase):
            return None
        stem, _, last = prefix.rpartition(".")
        parts = [f"{stem}.{part}" for part in self.packed_modules_mapping.get(last, [last])]
        concerned = [part for part in parts if part in self.modules]
        if not concerned:
            return UnquantizedLinearMethod()
        if concerned != parts:
            raise ValueError(f"{prefix} is quantized in part: {concerned}")
        # One input has one scale; the engine's own kernels take the largest of the parts'.
        scales: dict[str, float] = {}
        for part in parts:
            for name, value in self.scales.get(part, {}).items():
                scales[name] = max(value, scales.get(name, value))
        return Rounded(prefix, self.args, scales)


def register() -> None:
    """The entry point; vLLM calls it in each of its processes."""
    register_quantization_config(METHOD)(SimulatedConfig)
