"""What a checkpoint folder holds, read from its headers: no weight is loaded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from math import prod
from pathlib import Path
from typing import Any

from qpipe.errors import ConfigError, Fault, InvalidMeasurement
from qpipe.records import digest, hash_file

__all__ = [
    "PICKLES",
    "TEMPLATE_FILES",
    "TOKENIZER_FILES",
    "Linear",
    "describe",
    "has_chat_template",
    "headers",
    "linears",
    "require_checkpoint",
    "require_unchanged",
    "weight_files",
]

TOKENIZER_FILES = (
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab*",
    "merges*",
    "*.model",
    "*.tiktoken",
    "tekken.json",
)
"""Patterns of all that tokenizers are made of."""
TEMPLATE_FILES = ("chat_template*",)
"""Patterns of chat templates that are not in the tokenizer's own files."""
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
INDEX = "model.safetensors.index.json"
TOO_WIDE = {"F32": "float32", "F64": "float64"}


@dataclass(frozen=True)
class Linear:
    """One linear module: its name and the weight's [output, input] shape."""

    name: str
    out_features: int
    in_features: int


def require_checkpoint(folder: Path, key: str, quantized: bool = False) -> None:
    """Check that ``folder`` can be released, as a model or, ``quantized``, as a ready-made variant.

    Raises:
        ConfigError: no config or one of the other kind, no safetensors (pickle is refused) or
            incomplete ones, weights wider than 16 bits, or no tokenizer.
    """
    faults = []

    def fault(message: str, mend: str) -> None:
        faults.append(Fault(str(folder), key, message, mend))

    if not (folder / "config.json").exists():
        fault("there is no config.json", "point the source at a Hugging Face model folder")
    if not (folder / INDEX).exists() and not weight_files(folder):
        pickles = [path.name for path in sorted(folder.glob("*")) if path.suffix in PICKLES]
        if pickles:
            message = f"only pickle weights ({pickles[0]}), which run code when loaded"
            fault(message, "convert to safetensors: `model.save_pretrained(DIR)` does")
        else:
            fault("there are no *.safetensors files", "point the source at a folder with weights")
    if not any((folder / name).exists() for name in ("tokenizer.json", "tokenizer.model")):
        fault("there is no tokenizer", "save it beside: `tokenizer.save_pretrained(DIR)`")
    try:
        for message, mend in _wrong_contents(folder, quantized):
            fault(message, mend)
    except (ValueError, KeyError) as error:
        fault(f"a file is damaged: {error}", "fetch the model again, whole")
    if faults:
        raise ConfigError(faults)


def _wrong_contents(folder: Path, quantized: bool) -> Iterator[tuple[str, str]]:
    """What is wrong in the files that are there, each with its mend."""
    config = folder / "config.json"
    known = json.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
    if quantized and not known.get("quantization_config"):
        message = "config.json has no `quantization_config`: the checkpoint is not quantized"
        yield message, "point it at a quantized one, or leave `checkpoint` out to make it"
    if not quantized and known.get("quantization_config"):
        message = "config.json has `quantization_config`: the model is quantized already"
        yield message, "point the source at the unquantized model"
    missing = [path.name for path in weight_files(folder) if not path.exists()]
    if missing:
        yield f"{INDEX} names {missing[0]}, which is not there", "fetch the model again, whole"
        return
    values: Counter[str] = Counter()
    for spec in headers(folder).values():
        values[spec["dtype"]] += prod(spec["shape"])
    # A few tensors may be wider with good reason: routers, rotary tables.
    most = max(values, key=values.__getitem__, default="")
    if most in TOO_WIDE:
        mend = "save the model in bfloat16 first: `model.to(torch.bfloat16).save_pretrained(DIR)`"
        yield f"the weights are {TOO_WIDE[most]}", mend


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that make the model: those of its index where it has one.

    Mistral's repositories hold the weights a second time, as ``consolidated*.safetensors``.
    """
    index = folder / INDEX
    if index.exists():
        named = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        return sorted(folder / name for name in set(named))
    found = sorted(folder.glob("*.safetensors"))
    return [path for path in found if not path.name.startswith("consolidated")]


def headers(folder: Path) -> dict[str, dict[str, Any]]:
    """Name → {dtype, shape} of every tensor, from the safetensors headers.

    Raises:
        ValueError: a file has no such header.
    """
    tensors: dict[str, dict[str, Any]] = {}
    for path in weight_files(folder):
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > path.stat().st_size:
                raise ValueError(f"{path.name} is no safetensors file")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        end = max((spec["data_offsets"][1] for spec in header.values()), default=0)
        if 8 + length + end != path.stat().st_size:
            raise ValueError(f"{path.name} is not as long as its header says")
        tensors |= header
    return tensors


def linears(folder: Path) -> list[Linear]:
    """The linear modules inside the blocks of an unquantized checkpoint (no embedding, no head)."""
    return [
        Linear(name.removesuffix(".weight"), spec["shape"][0], spec["shape"][1])
        for name, spec in sorted(headers(folder).items())
        if name.endswith("_proj.weight") and len(spec["shape"]) == 2
    ]


def describe(folder: Path) -> dict[str, Any]:
    """Hashes, shapes and sizes of a checkpoint folder."""
    tensors = headers(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    files = {
        path.name: hash_file(path)
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != "manifest.json"
    }
    weights = {name: value for name, value in files.items() if name.endswith(".safetensors")}
    spans = [spec["data_offsets"] for spec in tensors.values()]
    return {
        "checkpoint_hash": digest(weights, config),
        "files": files,
        "shapes": {name: spec["shape"] for name, spec in sorted(tensors.items())},
        "stored_values": sum(prod(spec["shape"]) for spec in tensors.values()),
        "weights_gib": round(sum(end - start for start, end in spans) / 2**30, 4),
        "tokenizer_hash": digest(
            {k: v for k, v in files.items() if any(fnmatch(k, each) for each in TOKENIZER_FILES)}
        ),
        "chat_template_hash": digest(_chat_template(folder)),
        "has_chat_template": has_chat_template(folder),
        "config": config,
    }


def require_unchanged(folder: Path, manifest: dict[str, Any], made_by: str) -> None:
    """Check that the weights and the config are those that the manifest names.

    Raises:
        InvalidMeasurement: a file was changed or is missing.
    """
    for name, known in manifest["files"].items():
        path = folder / name
        if name != "config.json" and path.suffix != ".safetensors":
            continue
        if not path.exists() or hash_file(path) != known:
            raise InvalidMeasurement(
                f"{path} is not the file that its manifest names", mend=f"run `{made_by}` again"
            )


def has_chat_template(folder: Path) -> bool:
    """Whether the tokenizer in ``folder`` can render a conversation."""
    return _chat_template(folder) is not None


def _chat_template(folder: Path) -> str | None:
    jinja = folder / "chat_template.jinja"
    if jinja.exists():
        return jinja.read_text(encoding="utf-8")
    path = folder / "tokenizer_config.json"
    if not path.exists():
        return None
    template = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
    return None if template is None else json.dumps(template)
