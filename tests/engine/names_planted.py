"""Quantize environment: which linear modules of a loaded model stay at 16 bits, and lost names."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "qpipe" / "workers"))

import quantize
import torch
from _protocol import Refusal
from _smoke import Revived
from _weights import Checkpoint
from tiny import work as make_tiny
from transformers import MixtralConfig, MixtralForCausalLM

WEIGHTS = {
    "num_bits": 8,
    "type": "int",
    "strategy": "channel",
    "group_size": None,
    "symmetric": True,
    "dynamic": False,
}
SCHEME = {
    "steps": [{"method": "rtn", "params": {}}],
    "weights": WEIGHTS,
    "activations": None,
    "kv_cache": None,
    "ignore": ["lm_head"],
}


def request(model: Path, modules: list[str], **scheme: Any) -> dict[str, Any]:
    return {
        "model": str(model),
        "output": str(model.with_suffix(".made")),
        "scheme": {**SCHEME, **scheme},
        "modules": modules,
        "packed": True,
        "seed": 0,
        "calibration": None,
        "samples": None,
        "expected_bytes": None,
        "trust_remote_code": False,
    }


def refused(work: Any, *arguments: Any) -> str:
    try:
        work(*arguments)
    except Refusal as refusal:
        return str(refusal)
    return ""


def projections(model: Path) -> list[str]:
    names = [name.removesuffix(".weight") for name in Checkpoint(model).names]
    return [name for name in names if name.endswith("_proj")]


said: dict[str, Any] = {}
with tempfile.TemporaryDirectory() as root:
    tiny = Path(root, "tiny")
    make_tiny({"output": str(tiny), "hidden": 128, "head": 32})
    asked = request(tiny, projections(tiny))
    quantize.work(asked)
    made = json.loads(Path(asked["output"], "config.json").read_text())
    said["ignored of a plain model"] = made["quantization_config"]["ignore"]
    said["a module that is not there"] = refused(quantize.work, request(tiny, ["model.odd_proj"]))

    experts = Path(root, "experts")
    config = MixtralConfig(
        vocab_size=320,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_local_experts=2,
    )
    # Its layer's experts are two tensors each in the file, and two in all when they are loaded.
    MixtralForCausalLM(config).to(torch.bfloat16).save_pretrained(experts)
    said["experts"] = refused(quantize.work, request(experts, projections(experts)))
    both = Checkpoint(experts), Checkpoint(experts)
    said["ready-made experts"] = refused(Revived, *both, torch.float32, False)

routed = torch.nn.ModuleDict({"gate": torch.nn.Linear(2, 2), "q_proj": torch.nn.Linear(2, 2)})
said["a router"] = quantize._ignore(routed, SCHEME, ["q_proj"])
said["keys and values alone"] = quantize._ignore(routed, {**SCHEME, "weights": None}, [])
print(json.dumps(said))
