"""A small workspace on disk: release, schemes, model, and environments that only look installed."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from qpipe.config import Config, Release, load_yaml
from qpipe.config import Scheme as SchemeFile
from qpipe.envs._sync import MARK, described
from qpipe.hardware import Hardware
from qpipe.model import Architecture, Linear
from qpipe.paths import Workspace
from qpipe.records import hash_file, write_json

REPO = Path(__file__).parents[1]

AVX2 = Hardware("AVX2", frozenset({"avx2"}), 2, 16.0)
AMX = Hardware(
    "AMX", frozenset({"avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile"}), 2, 24.0
)
A100 = Hardware("host", frozenset({"avx2"}), 8, 64.0, ("NVIDIA A100",), 8.0)
H100 = Hardware("host", frozenset({"avx2"}), 8, 64.0, ("NVIDIA H100",), 9.0)


def silent(_: str) -> None:
    """Progress that nobody reads."""


def release_body(**changes: Any) -> dict[str, Any]:
    """A release file's content, with top-level keys replaced."""
    body: dict[str, Any] = {
        "name": "small",
        "model": {"source": "path:base"},
        "variants": {
            "gptq": {"scheme": "gptq-w4a16"},
            "fp8": {"scheme": "fp8-block"},
            "kv": {"scheme": "kv-fp8"},
        },
        "sensitivity": {"gptq": {"samples": 2, "tokens": 8}},
        "fallback": {"gptq-mixed": {"source": "gptq", "restore_units": 1}},
        "evaluation": {"suites": ["mine"]},
        "gate": {},
    }
    return {**body, **changes}


def small_config(workspace: Workspace, **changes: Any) -> Config:
    """The release above with the checked-in schemes."""
    release = Release.model_validate(release_body(**changes))
    names = {variant.scheme for variant in release.variants.values()}
    schemes = {name: checked_in_scheme(name) for name in names}
    return Config(workspace, release, schemes, {}, {})


def checked_in_scheme(name: str) -> SchemeFile:
    return load_yaml(REPO / "configs" / "schemes" / f"{name}.yaml", REPO, SchemeFile)


def write_workspace(root: Path, body: dict[str, Any]) -> Workspace:
    """A release file and every file it names, all sound."""
    files = {
        "configs/release.yaml": yaml.safe_dump(body, sort_keys=False),
        "calib/mix.yaml": "sources: {}",
        "evalsets/heldout/prose.txt": "One.\n\nTwo.",
        "evalsets/business/mine.yaml": "{kind: business, files: {math: math.jsonl}}",
        "evalsets/business/math.jsonl": "",
    }
    for scheme in (REPO / "configs" / "schemes").glob("*.yaml"):
        files[f"configs/schemes/{scheme.name}"] = scheme.read_text()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Workspace(root)


def write_safetensors(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """BF16 tensors of zeros: eight bytes of header length, the header, the data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        size = 2
        for length in shape:
            size *= length
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))


SHAPES = {
    "model.embed_tokens.weight": (32, 128),
    "model.layers.0.self_attn.q_proj.weight": (128, 128),
    "model.layers.0.self_attn.k_proj.weight": (64, 128),
    "model.layers.0.mlp.down_proj.weight": (128, 192),
    "model.layers.0.input_layernorm.weight": (128,),
    "lm_head.weight": (32, 128),
}


def architecture_of(linears: dict[str, tuple[int, int]], **sizes: Any) -> Architecture:
    """A model of linear modules and an embedding of 1,024 rows."""
    tensors: dict[str, tuple[int, ...]] = {f"{name}.weight": s for name, s in linears.items()}
    tensors["model.embed_tokens.weight"] = (1024, sizes["hidden"])
    modules = tuple(Linear(name, *shape) for name, shape in sorted(linears.items()))
    return Architecture(tensors, modules, **sizes)


def write_checkpoint(folder: Path, shapes: dict[str, tuple[int, ...]] = SHAPES) -> Path:
    """A folder that passes for a model."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 1}))
    (folder / "tokenizer.json").write_text("{}")
    write_safetensors(folder / "model.safetensors", shapes)
    return folder


class ByteTokenizer:
    """One token a byte, after a BOS where ``adds_bos``; in place of a loaded one."""

    bos_token_id = 0

    def __init__(self, adds_bos: bool = False) -> None:
        self.lead = [self.bos_token_id] if adds_bos else []

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [*(self.lead if add_special_tokens else []), *text.encode()]}

    def apply_chat_template(self, conversation: list[dict[str, str]], **_: object) -> str:
        return "\0" + "".join(f"<{turn['role']}>{turn['content']}" for turn in conversation)


def stand_in_for_transformers(tokenizer: ByteTokenizer) -> SimpleNamespace:
    """A module whose ``AutoTokenizer`` always loads ``tokenizer``."""
    return SimpleNamespace(
        AutoTokenizer=SimpleNamespace(from_pretrained=lambda *_, **__: tokenizer)
    )


def write_model(workspace: Workspace, name: str = "bf16") -> None:
    """A variant's checkpoint with its manifest, as its stage leaves it."""
    folder = write_checkpoint(workspace.checkpoint(name))
    manifest = {
        "checkpoint_hash": f"{name:0<64}",
        "files": {path.name: hash_file(path) for path in folder.iterdir()},
        "scheme_spec": {"weights": None, "activations": None},
        "modules": [name.removesuffix(".weight") for name in SHAPES if "_proj." in name],
        "weights_gib": 0.25,
        "config": {"num_hidden_layers": 1},
    }
    write_json(folder / "manifest.json", manifest)


def fake_environment(workspace: Workspace, name: str, python: str | None = None) -> Path:
    """An environment that counts as installed.

    Its interpreter is this one, or a script with the body ``python``.
    """
    env = described(name, workspace)
    env.python.parent.mkdir(parents=True)
    if python is None:
        env.python.symlink_to(sys.executable)
    else:
        env.python.write_text(f"#!{sys.executable}\n{python}")
        env.python.chmod(0o755)
    (env.folder / MARK).write_text(env.hash + "\n")
    return env.folder
