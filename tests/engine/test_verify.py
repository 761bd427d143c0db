from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import ENVS

pytestmark = pytest.mark.engine


def said_by(script: str, env: str = "quantize") -> dict[str, Any]:
    command = [ENVS / env / "bin" / "python", Path(__file__).with_name(script)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def test_planted_faults_of_a_saved_checkpoint() -> None:
    said = said_by("verify_planted.py")
    assert said.pop("none") == ""
    assert "MiB by the scheme's arithmetic" in said.pop("half its size")
    linear, attention = "model.layers.0.self_attn.q_proj", "model.layers.{}.self_attn"
    for fault in ("a corrupted weight", "scales of another"):
        assert f"{linear} is 1." in (text := said.pop(fault)) and "of its norm away" in text
    assert said == {
        name: f"the checkpoint is unsound: {what}"
        for name, what in {
            "nan": "model.norm.weight holds NaN or infinity",
            "infinite scale": f"{linear}.weight_scale holds NaN or infinity",
            "zero scales": f"{linear}.weight_scale holds a scale that is not above zero",
            "one zero scale": f"{linear}.weight_scale holds a scale that is not above zero",
            "zero input scale": f"{linear}.input_scale holds a scale that is not above zero",
            "no input scale": f"{linear} has no scale of its inputs",
            "no scale": f"{linear} has no scale",
            "no zero points": f"{linear} has no zero points",
            "no tensor": "model.norm.weight is not in it",
            "head twice": "lm_head.weight is in it, which the model shares with its embedding",
            "untied": "tie_word_embeddings is False, True in the model",
            "a layer without": "1 of 2 layers have a k_scale",
            "one left at 1": f"{attention.format(1)}.v_scale is 1: it was not calibrated",
            "zero kv": f"{attention.format(0)}.k_scale is 0: it was not calibrated",
        }.items()
    }


def test_checkpoints_that_no_longer_speak() -> None:
    said = said_by("smoke_planted.py")
    assert said["none"] == "KL 0.000"
    assert said["overflow"].startswith("model.layers.1.") and "NaN or infinity" in said["overflow"]
    assert "the model is lost: KL" in said["lost"]
    assert said["mends"] == {"lost": "fetch it again", "far": "say that it was trained"}


def test_modules_of_the_loaded_model() -> None:
    said = said_by("names_planted.py")
    for model in ("experts", "ready-made experts"):
        assert "not in the loaded model: transformers fuses or renames it" in said.pop(model)
    assert said == {
        "ignored of a plain model": ["lm_head"],
        "a module that is not there": "model.odd_proj is no linear module of the loaded model",
        "a router": ["gate"],
        "keys and values alone": ["lm_head"],
    }


@pytest.mark.skipif(not (ENVS / "autoawq").exists(), reason="AutoAWQ's environment is optional")
def test_parameters_of_autoawq() -> None:
    said = said_by("autoawq_planted.py", "autoawq")
    assert said["known"] == ""
    for kind, name in (("unknown", "duo_scalling"), ("qpipe's own", "calib_data")):
        assert f"no parameter {name}" in said[kind] and "apply_clip, duo_scaling" in said[kind]
    assert said["within"] == "TypeError: within"  # no fault of the scheme's file


def test_weights_of_other_tools_are_read() -> None:
    assert said_by("read_formats.py") == {
        "awq": 0.0,
        "gptq": 0.0,
        "gptq by activation order": 0.0,
        "fp8 blocks": 0.0,
        "fp8 channels": 0.0,
        "opened once": True,
    }
