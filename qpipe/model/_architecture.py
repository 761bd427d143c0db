"""The sizes of a model that shape its memory and its time, read without loading a weight."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

from qpipe.model._checkpoint import Linear, headers, linears

__all__ = ["Architecture", "architecture"]

HEAD = "lm_head"
EMBEDDING = "embed_tokens.weight"


@dataclass(frozen=True)
class Architecture:
    """What the headers and config.json of an unquantized checkpoint say."""

    tensors: Mapping[str, tuple[int, ...]]
    """Shape of every tensor that is saved, by name."""
    linears: tuple[Linear, ...]
    """The linear modules inside the blocks (no embedding, no head)."""
    layers: int
    hidden: int
    heads: int | None = None
    """Query heads; ``None`` where the config does not say."""
    kv_heads: int | None = None
    """Key and value heads; ``None`` where attention has no such heads (latent attention)."""
    head_dim: int | None = None

    @cached_property
    def values(self) -> int:
        """Stored values."""
        return sum(prod(shape) for shape in self.tensors.values())

    @cached_property
    def modules(self) -> frozenset[str]:
        """Names of all modules with a weight, and the head, which a tied model does not store."""
        stored = {name.removesuffix(".weight") for name in self.tensors if name.endswith(".weight")}
        return frozenset(stored | {HEAD})

    @cached_property
    def vocabulary(self) -> int:
        """Rows of the embedding; 0 where it has an unknown name."""
        found = (shape[0] for name, shape in self.tensors.items() if name.endswith(EMBEDDING))
        return next(found, 0)

    def kv_bytes(self, bits: int, devices: int = 1) -> float | None:
        """Bytes of keys and values a token on each of ``devices``; ``None`` where unknown.

        The engine copies heads where there are fewer of them than devices.
        """
        if self.kv_heads is None or self.head_dim is None:
            return None
        return self.layers * 2 * max(self.kv_heads / devices, 1) * self.head_dim * bits / 8


def architecture(folder: Path) -> Architecture:
    """Read a checkpoint folder.

    Raises:
        ValueError: a file has no safetensors header.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= config.get("text_config") or {}  # of models that also see or hear
    tensors = {name: tuple(spec["shape"]) for name, spec in headers(folder).items()}
    if config.get("tie_word_embeddings"):
        tensors.pop(f"{HEAD}.weight", None)  # some files have it twice; it is saved once
    widths = (shape[1] for name, shape in tensors.items() if name.endswith(EMBEDDING))
    hidden = config.get("hidden_size") or next(widths, 0)
    heads = config.get("num_attention_heads")
    latent = config.get("kv_lora_rank") is not None
    return Architecture(
        tensors=tensors,
        linears=tuple(linears(folder)),
        layers=config.get("num_hidden_layers", 0),
        hidden=hidden,
        heads=heads,
        kv_heads=None if latent else config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or (hidden // heads if heads else None),
    )
