"""What a quantized checkpoint's config.json says of itself, in the words of a scheme."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qpipe.config import QuantArgs, Scheme

__all__ = [
    "QuantizationConfig",
    "as_declared",
    "declared",
    "declared_in",
    "disagreement",
    "unlike",
]


@dataclass(frozen=True)
class QuantizationConfig:
    """How a checkpoint says that its parts are quantized; ``None``: at 16 bits."""

    weights: QuantArgs | None
    activations: QuantArgs | None
    kv_cache: QuantArgs | None
    ignore: tuple[str, ...] = ()
    """Modules left at 16 bits, in the words of a scheme's ``ignore``."""
    targets: tuple[str, ...] = ("Linear",)
    """Modules that are quantized, in the same words or by their class."""


def declared(config: Mapping[str, Any]) -> QuantizationConfig:
    """Read ``quantization_config``.

    Raises:
        ValueError: a method that qpipe does not know, or a config that it cannot read.
    """
    body = config.get("quantization_config") or {}
    method = body.get("quant_method")
    if method not in METHODS:
        known = ", ".join(METHODS)
        raise ValueError(f"the quantization method '{method}' is unknown; known: {known}")
    try:
        return METHODS[method](body)
    except (KeyError, TypeError) as error:
        raise ValueError(f"its quantization_config is not one of {method}: {error}") from error


def declared_in(folder: Path) -> QuantizationConfig:
    """Read it of a checkpoint folder.

    Raises:
        ValueError: as ``declared``, or its config.json is no JSON.
    """
    return declared(json.loads((folder / "config.json").read_text(encoding="utf-8")))


def disagreement(found: QuantizationConfig, scheme: Scheme) -> str | None:
    """What decides the kernel and differs; group sizes and zero points are the checkpoint's own."""
    return _difference(found, scheme, _shown)


def unlike(found: QuantizationConfig, scheme: Scheme) -> str | None:
    """What of a checkpoint that was made by ``scheme`` is not as it says, to the last argument."""
    return _difference(found, scheme, _exact)


def as_declared(found: QuantizationConfig, scheme: Scheme) -> Scheme:
    """``scheme`` with the arguments that a checkpoint of it has."""
    activations = scheme.activations if scheme.engine_activations else found.activations
    return scheme.model_copy(update={"weights": found.weights, "activations": activations})


def _difference(
    found: QuantizationConfig, scheme: Scheme, look: Callable[[QuantArgs | None], object]
) -> str | None:
    saved = scheme.saved()
    for part in ("weights", "activations", "kv_cache"):
        mine, theirs = (look(getattr(each, part)) for each in (found, saved))
        if mine != theirs:
            return f"its {part.replace('_', ' ')} are {mine}, the scheme's {theirs}"
    return None


def _exact(args: QuantArgs | None) -> dict[str, Any] | None:
    """Without what tools fill in by themselves."""
    unsaid = {"observer", "scale_dtype"}
    return None if args is None else args.model_dump(exclude=unsaid, exclude_none=True)


def _shown(args: QuantArgs | None) -> str:
    if args is None:
        return "16-bit"
    when = "" if args.dynamic is False else ", scaled at run time"
    return f"{args.num_bits}-bit {args.type}, a scale a {args.strategy}{when}"


def _args(body: Mapping[str, Any] | None) -> QuantArgs | None:
    """compressed-tensors' arguments, less what does not decide numbers."""
    if body is None:
        return None
    known = {key: body[key] for key in QuantArgs.model_fields if body.get(key) is not None}
    known.pop("observer", None)
    if "scale_dtype" in known:
        known["scale_dtype"] = str(known["scale_dtype"]).removeprefix("torch.")
        if known["scale_dtype"] not in ("float8_e4m3fn", "uint8"):
            del known["scale_dtype"]
    if known.get("strategy") == "tensor_group":
        known.setdefault("scale_dtype", "float8_e4m3fn")  # older files do not say so
    if known.get("strategy") not in ("group", "tensor_group"):
        known.pop("group_size", None)
    return QuantArgs.model_validate(known)


def _compressed_tensors(body: Mapping[str, Any]) -> QuantizationConfig:
    groups = [
        (_args(group.get("weights")), _args(group.get("input_activations")))
        for group in body["config_groups"].values()
    ]
    if any(group != groups[0] for group in groups):
        raise ValueError("its modules are quantized in several ways, which no scheme can say")
    weights, activations = groups[0] if groups else (None, None)
    targets = [
        each for group in body["config_groups"].values() for each in group.get("targets", ())
    ]
    return QuantizationConfig(
        weights,
        activations,
        _args(body.get("kv_cache_scheme")),
        ignore=tuple(body.get("ignore") or ()),
        targets=tuple(targets) or ("Linear",),
    )


def _integers(
    body: Mapping[str, Any], symmetric: bool, ignore: Iterable[str]
) -> QuantizationConfig:
    size = body["group_size"]
    grouped = {"strategy": "group", "group_size": size} if size > 0 else {"strategy": "channel"}
    body = {"num_bits": body["bits"], "type": "int", "symmetric": symmetric, **grouped}
    return QuantizationConfig(_args(body), None, None, tuple(ignore))


def _awq(body: Mapping[str, Any]) -> QuantizationConfig:
    if str(body.get("version", "gemm")).lower() != "gemm":
        raise ValueError(f"AutoAWQ's version '{body['version']}' is packed otherwise than 'gemm'")
    # Parts of names, anywhere in them.
    left = (f"re:.*{re.escape(part)}" for part in body.get("modules_to_not_convert") or ())
    return _integers(body, not body["zero_point"], left)


def _gptq(body: Mapping[str, Any]) -> QuantizationConfig:
    if body.get("desc_act") and body["group_size"] > 0:
        raise ValueError("the engine refuses groups by activation order (`desc_act: true`)")
    if not body["sym"]:
        raise ValueError("the engine takes GPTQ's format without zero points only (`sym: true`)")
    # GPTQModel's rules by module: `-:` leaves one out.
    rules = [rule for rule in body.get("dynamic") or () if rule.startswith("-:")]
    return _integers(body, True, (f"re:{rule[2:]}" for rule in rules))


def _fp8(body: Mapping[str, Any]) -> QuantizationConfig:
    block = body.get("weight_block_size")
    shape = {"strategy": "block", "block_structure": block} if block else {"strategy": "tensor"}
    dynamic = body["activation_scheme"] == "dynamic"
    rounding: dict[str, Any] = {"strategy": "tensor"}
    if block:
        rounding = {"strategy": "group", "group_size": block[1]}
    float8 = {"num_bits": 8, "type": "float"}
    activations = _args({**float8, **rounding, "dynamic": dynamic})
    ignore = body.get("ignored_layers") or body.get("modules_to_not_convert") or ()
    return QuantizationConfig(_args(float8 | shape), activations, None, tuple(ignore))


METHODS: dict[str, Callable[[Mapping[str, Any]], QuantizationConfig]] = {
    "compressed-tensors": _compressed_tensors,
    "awq": _awq,
    "gptq": _gptq,
    "fp8": _fp8,
}
