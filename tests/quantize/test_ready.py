"""Checkpoints that somebody else quantized."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from qpipe.config import Config
from qpipe.errors import ConfigError, InvalidMeasurement
from qpipe.paths import Workspace
from qpipe.quantize import _ready, make_variant
from qpipe.records import hash_file
from tests.schemes.test_declared import AWQ, GPTQ, INT4, INT8, compressed, method
from tests.workspace_fixture import REPO, silent, small_config, write_checkpoint, write_model

INT4_BUT_Q = compressed({"weights": {**INT4, "group_size": 64}})
INT4_BUT_Q["quantization_config"]["ignore"] = ["lm_head", "re:.*q_proj$", "re:visual.*"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Requests that a stand-in for the worker got."""
    requests: list[dict[str, Any]] = []

    def worker(env: str, name: str, request: dict[str, Any], *_: Any) -> dict[str, Any]:
        requests.append({"worker": name, **request})
        return {"modules": ["model.layers.0.mlp.down_proj"], "seconds": 0.0}

    monkeypatch.setattr(_ready, "run_worker", worker)
    return requests


def checkpoint(workspace: Workspace, config: dict[str, Any]) -> Path:
    folder = write_checkpoint(workspace.root / "ready")
    body = {"num_hidden_layers": 1, **config}
    (folder / "config.json").write_text(json.dumps(body))
    return folder


def config(workspace: Workspace, scheme: str = "awq-w4a16", **entries: Any) -> Config:
    write_model(workspace)
    variants = {"mine": {"scheme": scheme, "checkpoint": "path:ready", **entries}}
    return small_config(workspace, variants=variants, sensitivity={}, fallback={})


def test_it_is_taken_as_it_is(workspace: Workspace, asked: list[dict[str, Any]]) -> None:
    checkpoint(workspace, AWQ)
    manifest = make_variant(config(workspace), "mine", silent)
    assert [request["worker"] for request in asked] == ["check"]
    assert asked[0]["expected_bytes"] is None  # of a format that the scheme does not say
    assert manifest["modules"] == ["model.layers.0.mlp.down_proj"]
    assert manifest["ready_made"]["source"] == "path:ready"
    assert manifest["calibration_hash"] is None and manifest["restored"] == []
    # The scheme is what runs; the group size is the checkpoint's own.
    assert manifest["scheme_spec"]["weights"]["group_size"] == 64
    assert (workspace.checkpoint("mine") / "model.safetensors").exists()


def test_its_manifest_says_what_others_say(
    workspace: Workspace, asked: list[dict[str, Any]]
) -> None:
    checkpoint(workspace, AWQ)
    write_model(workspace)
    variants = {
        "mine": {"scheme": "awq-w4a16", "checkpoint": "path:ready"},
        "kv": {"scheme": "kv-fp8-uncalibrated"},
    }
    found = small_config(workspace, variants=variants, sensitivity={}, fallback={})
    mine, kv = (make_variant(found, name, silent) for name in variants)
    assert set(mine) - set(kv) == {"ready_made"} and set(kv) < set(mine)


def test_weights_may_be_far_only_where_training_is_said(
    workspace: Workspace, asked: list[dict[str, Any]]
) -> None:
    checkpoint(workspace, AWQ)
    make_variant(config(workspace), "mine", silent)
    make_variant(config(workspace, trained=True), "mine", silent)
    assert [request["trained"] for request in asked] == [False, True]
    assert ["`trained: true`" in request["far_mend"] for request in asked] == [True, False]


def test_another_scheme_is_named(workspace: Workspace, asked: list[dict[str, Any]]) -> None:
    checkpoint(workspace, AWQ)
    shutil.copytree(REPO / "configs" / "schemes", workspace.root / "configs" / "schemes")
    with pytest.raises(ConfigError) as caught:
        make_variant(config(workspace, "fp8-block"), "mine", silent)
    (fault,) = caught.value.faults
    assert fault.key == "variants.mine.checkpoint"
    assert "its weights are 4-bit int" in fault.message and "awq-w4a16" in fault.mend
    assert asked == [] and not workspace.checkpoint("mine").exists()


def test_a_scheme_that_nobody_wrote(workspace: Workspace, asked: list[dict[str, Any]]) -> None:
    checkpoint(workspace, compressed({"weights": {**INT8, "strategy": "tensor"}}))
    with pytest.raises(ConfigError, match="write a scheme file that says so"):
        make_variant(config(workspace), "mine", silent)


@pytest.mark.parametrize(
    ("body", "said"),
    [(method("aqlm"), "'aqlm' is unknown"), ({}, "'None' is unknown")],
)
def test_method_that_nobody_knows(
    workspace: Workspace, asked: list[dict[str, Any]], body: dict[str, Any], said: str
) -> None:
    checkpoint(workspace, body)
    with pytest.raises(ConfigError, match=said):
        make_variant(config(workspace), "mine", silent)
    assert asked == []


def test_a_missing_shard(workspace: Workspace, asked: list[dict[str, Any]]) -> None:
    folder = checkpoint(workspace, AWQ)
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ConfigError, match=r"model-00001-of-00002\.safetensors, which is not there"):
        make_variant(config(workspace), "mine", silent)
    assert asked == []


def test_a_pickle(workspace: Workspace, asked: list[dict[str, Any]]) -> None:
    folder = checkpoint(workspace, AWQ)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="only pickle weights"):
        make_variant(config(workspace), "mine", silent)
    assert asked == []


def test_it_is_looked_at_before_gigabytes_are_fetched(
    workspace: Workspace, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    folder, fetched = checkpoint(workspace, method("aqlm")), []

    def snapshot(repo: str, **settings: Any) -> str:
        fetched.append(settings["allow_patterns"])
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    write_model(workspace)
    variants = {"mine": {"scheme": "awq-w4a16", "checkpoint": "hub:org/name@abc"}}
    found = small_config(workspace, variants=variants, sensitivity={}, fallback={})
    with pytest.raises(ConfigError, match="'aqlm' is unknown"):
        make_variant(found, "mine", silent)
    assert fetched == [["config.json"]]


def test_its_schemes_group_size_need_not_fit_the_model(
    workspace: Workspace, asked: list[dict[str, Any]]
) -> None:
    checkpoint(workspace, AWQ)
    found = config(workspace)
    weights = found.schemes["awq-w4a16"].weights
    assert weights is not None
    odd = weights.model_copy(update={"group_size": 1000})
    found.schemes["awq-w4a16"] = found.schemes["awq-w4a16"].model_copy(update={"weights": odd})  # type: ignore[index]
    make_variant(found, "mine", silent)


def test_the_models_generation_config_is_taken(
    workspace: Workspace, asked: list[dict[str, Any]]
) -> None:
    """Its repository is somebody else's, who cannot be told to change it."""
    found, said = config(workspace), list[str]()
    theirs = checkpoint(workspace, AWQ) / "generation_config.json"
    theirs.write_text(json.dumps({"temperature": 0.6}))
    mine = workspace.model / "generation_config.json"
    mine.write_text(json.dumps({"temperature": 0.7}))
    manifest = make_variant(found, "mine", said.append)
    assert manifest["ready_made"]["replaced"] == ["generation_config.json"]
    assert manifest["files"]["generation_config.json"] == hash_file(mine)
    assert json.loads(theirs.read_text()) == {"temperature": 0.6}
    (line,) = (line for line in said if "generation_config.json" in line)
    assert str(workspace.checkpoint("mine")) in line and "not the original" in line


def test_another_tokenizer_is_refused_before_the_tensors_are_read(
    workspace: Workspace, asked: list[dict[str, Any]]
) -> None:
    (checkpoint(workspace, AWQ) / "tokenizer.json").write_text('{"version": "1.0"}')
    with pytest.raises(InvalidMeasurement, match=r"tokenizer\.json is not as in") as caught:
        make_variant(config(workspace), "mine", silent)
    assert asked == [] and "checkpoint: path:DIR" in str(caught.value.mend)


@pytest.mark.parametrize(
    ("body", "devices", "said", "mend"),
    [
        # 192 inputs of down_proj.
        (GPTQ, 1, "128 does not divide 192 inputs", "take another checkpoint of this model"),
        (AWQ, 2, "64 does not divide 96 inputs on each of 2 devices", "tensor_parallel_size` to 1"),
        (INT4_BUT_Q, 1, "which the engine fuses, only q_proj is ignored", "take another"),
    ],
)
def test_what_the_engine_would_refuse_is_not_fetched(
    workspace: Workspace,
    asked: list[dict[str, Any]],
    body: dict[str, Any],
    devices: int,
    said: str,
    mend: str,
) -> None:
    folder = checkpoint(workspace, body)
    (folder / "model.safetensors").unlink()
    found = config(workspace, serve={"tensor_parallel_size": devices})
    with pytest.raises(ConfigError) as caught:
        make_variant(found, "mine", silent)
    fault, other = caught.value.faults
    assert fault.key == other.key == "variants.mine.checkpoint" and asked == []
    assert other.message == "there are no *.safetensors files"
    assert said in fault.message and mend in fault.mend
    assert "ignore" not in fault.mend  # nobody can, of a checkpoint that is made


def test_a_later_one_that_is_damaged_stops_the_first(
    workspace: Workspace, asked: list[dict[str, Any]]
) -> None:
    folder = checkpoint(workspace, AWQ)
    (folder / "model.safetensors").write_bytes(b"cut off")
    write_model(workspace)
    variants = {
        "first": {"scheme": "kv-fp8-uncalibrated"},
        "mine": {"scheme": "awq-w4a16", "checkpoint": "path:ready"},
        "gone": {"scheme": "awq-w4a16", "checkpoint": "path:nowhere"},
        "later": {"scheme": "awq-w4a16", "checkpoint": "hub:org/name@abc"},
    }
    found = small_config(workspace, variants=variants, sensitivity={}, fallback={})
    with pytest.raises(ConfigError) as caught:
        make_variant(found, "first", silent)
    said = {fault.key: fault.message for fault in caught.value.faults}
    assert set(said) == {"variants.mine.checkpoint", "variants.gone.checkpoint"}
    assert "a file is damaged" in said["variants.mine.checkpoint"]
    assert not workspace.checkpoint("first").exists()


LLAMA3 = {"factor": 8.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
GEMMA3 = {"rope_theta": 1e6, "rope_local_base_freq": 1e4}
GEMMA3_LINEAR = {**GEMMA3, "rope_scaling": {"type": "linear", "factor": 8.0}}
MROPE = {"mrope_section": [16, 24, 24]}


def by_kind(theta: float = 1e6, window: float = 1e4, **scaling: Any) -> dict[str, Any]:
    kinds = {
        "full_attention": {"rope_type": "default", "rope_theta": theta, **scaling},
        "sliding_attention": {"rope_type": "default", "rope_theta": window},
    }
    return {"rope_parameters": kinds}


def in_section(theta: float, **scaling: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta, **scaling}}


@pytest.mark.parametrize(
    ("base", "theirs", "said"),
    [
        # The same model, told in older and newer words.
        ({"rope_theta": 5e5, "rope_scaling": None}, in_section(5e5), None),
        (
            {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
            in_section(5e5, rope_type="llama3", **LLAMA3),
            None,
        ),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, {"rope_theta": 1e4}, None),
        (GEMMA3, by_kind(), None),
        (GEMMA3_LINEAR, by_kind(rope_type="linear", factor=8.0), None),
        (by_kind(), {"text_config": by_kind()}, None),
        ({"rope_scaling": {"type": "mrope", **MROPE}}, in_section(1e4, **MROPE), None),
        (by_kind(), {"rope_parameters": {**by_kind()["rope_parameters"], "linear": None}}, None),
        # Others.
        ({"rope_theta": 5e5}, in_section(1e4), "rope_theta 10000.0 for 500000.0"),
        (GEMMA3, by_kind(theta=5e5), "rope_theta 500000.0 for 1000000.0"),
        (GEMMA3, by_kind(window=5e4), "rope_theta of sliding_attention 50000.0 for 10000.0"),
        (by_kind(), by_kind(window=5e4), "rope_theta of sliding_attention 50000.0 for 10000.0"),
        (GEMMA3_LINEAR, by_kind(rope_type="linear", factor=4.0), "factor 4.0 for 8.0"),
        ({"rope_scaling": None}, {"rope_scaling": YARN}, "rope_type yarn for default"),
        ({"rms_norm_eps": 1e-6}, {"rms_norm_eps": 1e-5}, "rms_norm_eps 1e-05 for 1e-06"),
    ],
)
def test_what_the_checkpoint_computes_is_the_models(
    workspace: Workspace,
    asked: list[dict[str, Any]],
    base: dict[str, Any],
    theirs: dict[str, Any],
    said: str | None,
) -> None:
    found = config(workspace)
    (workspace.model / "config.json").write_text(json.dumps({"num_hidden_layers": 1, **base}))
    checkpoint(workspace, {**AWQ, **theirs})
    if said is None:
        make_variant(found, "mine", silent)
        return
    with pytest.raises(ConfigError) as caught:
        make_variant(found, "mine", silent)
    (fault,) = caught.value.faults
    assert fault.key == "variants.mine.checkpoint"
    assert fault.message == f"it is another model: {said}"
