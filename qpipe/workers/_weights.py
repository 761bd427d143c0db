"""A checkpoint's tensors by name, and what its quantized weights stand for, one module at a time.

Read from the files, whatever tool wrote them: compressed-tensors, AutoAWQ, GPTQ, and FP8 as its own
method. Loading through a model's classes takes the whole model's memory and each tool's kernels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from _protocol import Refusal
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.compressors.format import infer_module_format
from compressed_tensors.config import CompressionFormat
from compressed_tensors.quantization import QuantizationScheme
from compressed_tensors.utils.match import match_name
from safetensors import safe_open

HEAD = "lm_head.weight"
INDEX = "model.safetensors.index.json"
# Tables that older files hold, which every engine computes.
UNREAD = ("rotary_emb.inv_freq",)
SCALES = ("weight_scale", "weight_scale_inv", "scales")
# AutoAWQ packs eight columns an integer in this order of nibbles.
AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
Tensors = dict[str, torch.Tensor]


class Checkpoint:
    """The safetensors files of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config: dict[str, Any] = json.loads(
            (folder / "config.json").read_text(encoding="utf-8")
        )
        self.quantization: dict[str, Any] = self.config.get("quantization_config") or {}
        files = sorted(folder.glob("*.safetensors"))
        if (folder / INDEX).exists():
            index = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
            files = [folder / name for name in sorted(set(index.values()))]
        self.files = files
        self._files: dict[str, Any] = {}
        self._names: dict[Path, list[str]] = {}
        self._parts: dict[str, list[str]] = {}
        for path in files:
            handle = safe_open(path, framework="pt")
            self._names[path] = []
            for name in handle.keys():  # noqa: SIM118 - a safe_open handle is no mapping
                if name.endswith(UNREAD):
                    continue
                self._files[name] = handle
                self._names[path].append(name)
                module, _, last = name.rpartition(".")
                self._parts.setdefault(module, []).append(last)

    @property
    def tied(self) -> bool:
        """Whether the head has the embedding's weights."""
        return bool(self.config.get("tie_word_embeddings"))

    @property
    def layers(self) -> int:
        """Blocks; multimodal configs tell it of their text model."""
        body = self.config.get("text_config") or self.config
        return int(body["num_hidden_layers"])

    @property
    def names(self) -> list[str]:
        return list(self._files)

    def names_in(self, path: Path) -> list[str]:
        return self._names[path]

    def tensor(self, name: str) -> torch.Tensor:
        return self._files[name].get_tensor(name)

    @cached_property
    def modules(self) -> list[str]:
        """Modules whose weights are quantized."""
        return [module for module, parts in self._parts.items() if set(parts) & set(SCALES)]

    def weight(self, module: str) -> torch.Tensor:
        """The [output, input] weight of a module, dequantized where it is quantized; float32."""
        if module not in self._quantized:
            return self.tensor(f"{module}.weight").float()
        method = self.quantization.get("quant_method")
        if method not in METHODS:
            known = ", ".join(METHODS)
            raise Refusal(f"qpipe cannot read weights of '{method}'", f"it reads {known}")
        return METHODS[method](self, module, self._local(module)).float()

    @cached_property
    def _quantized(self) -> set[str]:
        return set(self.modules)

    def unquantized(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every other tensor that is no part of a quantized weight nor a scale of the KV cache."""
        for name in self._files:
            module, _, last = name.rpartition(".")
            if last in ("k_scale", "v_scale", "q_scale") or (
                module in self._quantized and last != "bias"
            ):
                continue
            yield name, self.tensor(name)

    def _local(self, module: str) -> Tensors:
        return {part: self.tensor(f"{module}.{part}") for part in self._parts[module]}


def _compressed_tensors(checkpoint: Checkpoint, module: str, parts: Tensors) -> torch.Tensor:
    for group in checkpoint.quantization["config_groups"].values():
        # A target is a class, here always linear, or a module.
        if any(each == "Linear" or match_name(module, each) for each in group["targets"]):
            scheme = QuantizationScheme.model_validate(group)
            if scheme.format is None:
                scheme.format = _format(checkpoint, scheme)
            compressor = BaseCompressor.get_value_from_registry(scheme.format)
            return compressor.decompress(parts, scheme)["weight"]
    raise Refusal(f"{module} has scales, and no group of the config", "the checkpoint is damaged")


def _format(checkpoint: Checkpoint, scheme: QuantizationScheme) -> CompressionFormat:
    """Older files tell it once for all groups; `mixed-precision` tells nothing of any."""
    told = checkpoint.quantization.get("format")
    if told in (None, CompressionFormat.mixed_precision.value):
        return CompressionFormat(infer_module_format(torch.nn.Linear, scheme))
    return CompressionFormat(told)


def _awq(checkpoint: Checkpoint, module: str, parts: Tensors) -> torch.Tensor:
    """qweight [in, out/8], qzeros [in/group, out/8], scales [in/group, out]."""
    values, zeros = (
        _unpacked(parts[name]).unflatten(-1, (-1, 8))[..., AWQ_ORDER].flatten(-2)
        for name in ("qweight", "qzeros")
    )
    rows = torch.arange(len(values)) * len(zeros) // len(values)
    return ((values - zeros[rows]) * parts["scales"].float()[rows]).T


def _gptq(checkpoint: Checkpoint, module: str, parts: Tensors) -> torch.Tensor:
    """qweight [in/8, out], qzeros [in/group, out/8], scales [in/group, out], g_idx [in]."""
    bits = checkpoint.quantization["bits"]
    values = _unpacked(parts["qweight"].T.contiguous(), bits).T
    # The first format stores zero points less one.
    offset = 0 if checkpoint.quantization.get("checkpoint_format") == "gptq_v2" else 1
    zeros = _unpacked(parts["qzeros"], bits) + offset
    rows = torch.arange(len(values)) * len(zeros) // len(values)
    rows = parts["g_idx"].long() if "g_idx" in parts else rows
    return ((values - zeros[rows]) * parts["scales"].float()[rows]).T


def _unpacked(packed: torch.Tensor, bits: int = 4) -> torch.Tensor:
    """Integers of ``bits``, lowest first, along the last dimension."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    return ((packed.unsqueeze(-1) >> shifts) & (2**bits - 1)).flatten(-2).float()


def _fp8(checkpoint: Checkpoint, module: str, parts: Tensors) -> torch.Tensor:
    """A scale a tensor, a row, or a block of ``weight_block_size``."""
    weight = parts["weight"].float()
    scale = next(parts[name] for name in SCALES if name in parts).float()
    block = checkpoint.quantization.get("weight_block_size")
    if block:
        for dimension, size in enumerate(block):
            scale = scale.repeat_interleave(size, dimension)
        scale = scale[: weight.shape[0], : weight.shape[1]]
    elif scale.ndim == 1 and scale.numel() > 1:
        scale = scale[:, None]
    return weight * scale


METHODS = {
    "compressed-tensors": _compressed_tensors,
    "awq": _awq,
    "gptq": _gptq,
    "fp8": _fp8,
}
