from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

from qpipe.config import Config
from qpipe.errors import ConfigError, EnvError, MissingInput, WorkerError
from qpipe.forecast import _forecast
from qpipe.paths import Workspace
from qpipe.quantize import _ready, _stage, make_variant
from qpipe.records import SCHEMA_VERSION, read_json, write_json
from tests.workspace_fixture import SHAPES, silent, small_config, write_checkpoint, write_model

QKV = "model.layers.0.self_attn.qkv_proj"
MODULES = [
    f"model.layers.0.{part}" for part in ("mlp.down_proj", "self_attn.k_proj", "self_attn.q_proj")
]


def write_quantization(folder: Path, scheme: dict[str, Any]) -> None:
    """What llm-compressor writes of a scheme."""
    group = {"weights": scheme["weights"], "input_activations": scheme["activations"]}
    body = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": group} if scheme["weights"] else {},
        "kv_cache_scheme": scheme["kv_cache"],
    }
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantization_config": body}))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Requests that a stand-in for the worker got."""
    requests: list[dict[str, Any]] = []

    def worker(env: str, name: str, request: dict[str, Any], *_: Any) -> dict[str, Any]:
        requests.append({"worker": name, **request})
        write_checkpoint(Path(request["output"]))
        write_quantization(Path(request["output"]), request["scheme"])
        return {"seconds": 1.0}

    monkeypatch.setattr(_stage, "run_worker", worker)
    return requests


@pytest.fixture
def config(workspace: Workspace) -> Config:
    write_model(workspace)
    write_json(workspace.calibration("mix") / "report.json", {"hash": "d" * 64})
    return small_config(workspace)


def test_variant(config: Config, asked: list[dict[str, Any]]) -> None:
    manifest = make_variant(config, "gptq", silent)
    (request,) = asked
    folder = config.workspace.checkpoint("gptq")
    assert request["modules"] == MODULES
    assert request["calibration"] == str(config.workspace.calibration("mix") / "calib.jsonl")
    assert request["scheme"]["weights"]["group_size"] == 64
    assert 0 < request["expected_bytes"] < 2 * sum(prod(shape) for shape in SHAPES.values())
    assert not Path(request["output"]).exists()
    assert read_json(folder / "manifest.json", "-") == {
        "schema_version": SCHEMA_VERSION,
        **manifest,
    }
    assert manifest["calibration_hash"] == "d" * 64
    assert manifest["base_checkpoint_hash"].startswith("bf16")
    assert (manifest["restored"], manifest["scheme"]) == ([], "gptq-w4a16")
    assert (folder / "model.safetensors").exists()


def test_autoawqs_checkpoint_must_have_its_size(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, dict[str, Any]] = {}

    def worker(env: str, name: str, request: dict[str, Any], *_: Any) -> dict[str, Any]:
        asked[name] = request
        write_checkpoint(Path(request["output"]))
        return {"seconds": 1.0, "modules": MODULES}

    for module in (_stage, _ready):
        monkeypatch.setattr(module, "run_worker", worker)
    variants = {"awq": {"scheme": "autoawq-w4a16"}}
    found = small_config(config.workspace, variants=variants, sensitivity={}, fallback={})
    make_variant(found, "awq", silent)
    assert list(asked) == ["autoawq", "check"]
    whole = 2 * sum(prod(shape) for shape in SHAPES.values())
    assert 0 < asked["check"]["expected_bytes"] < whole


def test_scheme_without_calibration_asks_for_no_rows(
    config: Config, asked: list[dict[str, Any]]
) -> None:
    (config.workspace.calibration("mix") / "report.json").unlink()
    manifest = make_variant(config, "fp8", silent)
    assert asked[0]["calibration"] is None and manifest["calibration_hash"] is None
    with pytest.raises(MissingInput, match="qpipe calibrate"):
        make_variant(config, "gptq", silent)


def test_kv_scheme_quantizes_no_module(config: Config, asked: list[dict[str, Any]]) -> None:
    make_variant(config, "kv", silent)
    assert asked[0]["modules"] == []


def test_fallback_restores_the_worst_units(config: Config, asked: list[dict[str, Any]]) -> None:
    with pytest.raises(MissingInput, match="qpipe sensitivity gptq"):
        make_variant(config, "gptq-mixed", silent)
    units = [{"unit": QKV, "kl": 0.2}, {"unit": "model.layers.0.mlp.down_proj", "kl": 0.1}]
    write_json(config.workspace.sensitivity("gptq"), {"units": units})
    manifest = make_variant(config, "gptq-mixed", silent)
    assert sorted(manifest["restored"]) == MODULES[1:]
    assert asked[0]["modules"] == MODULES[:1]
    assert set(MODULES[1:]) < set(asked[0]["scheme"]["ignore"])
    assert "lm_head" in asked[0]["scheme"]["ignore"]


def test_ignored_modules_are_not_promised(config: Config, asked: list[dict[str, Any]]) -> None:
    scheme = config.schemes["gptq-w4a16"]
    ignore = ["lm_head", "re:.*down_proj$"]
    config.schemes["gptq-w4a16"] = scheme.model_copy(update={"ignore": ignore})  # type: ignore[index]
    make_variant(config, "gptq", silent)
    assert asked[0]["modules"] == MODULES[1:]


def test_scheme_that_does_not_fit(config: Config, asked: list[dict[str, Any]]) -> None:
    shapes = {"model.layers.0.self_attn.q_proj.weight": (96, 96)}
    write_checkpoint(config.workspace.model, shapes)
    with pytest.raises(ConfigError) as caught:
        make_variant(config, "gptq", silent)
    assert [fault.mend for fault in caught.value.faults] == [
        "take 32 rows, or ignore the module",
        "take 32, or ignore the module",
    ]
    assert asked == []


def test_short_disk_starts_and_writes_nothing(
    config: Config, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_forecast, "disk_free", lambda _: 100)
    with pytest.raises(EnvError, match=r"disk for the checkpoint.*GiB needed"):
        make_variant(config, "gptq", silent)
    assert asked == [] and not (config.workspace.out / "models").exists()


def test_names_that_are_not_quantized(config: Config, asked: list[dict[str, Any]]) -> None:
    for name in ("bf16", "other"):
        with pytest.raises(ConfigError, match=f"'{name}' is not quantized") as caught:
            make_variant(config, name, silent)
        assert caught.value.faults[0].mend == "one of: gptq, fp8, kv, gptq-mixed"


def test_missing_model(workspace: Workspace) -> None:
    with pytest.raises(MissingInput, match="qpipe model"):
        make_variant(small_config(workspace), "gptq", silent)


def test_dead_worker_leaves_nothing(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(env: str, name: str, request: dict[str, Any], *_: Any) -> dict[str, Any]:
        write_checkpoint(Path(request["output"]))
        raise WorkerError("killed")

    monkeypatch.setattr(_stage, "run_worker", dies)
    with pytest.raises(WorkerError):
        make_variant(config, "gptq", silent)
    assert list((config.workspace.out / "models").iterdir()) == []


def test_what_the_calibration_check_warned_of_is_said_again(
    config: Config, asked: list[dict[str, Any]]
) -> None:
    warnings = [
        {"group": "held-out/code", "reasons": ["few tokens", "far"]},
        {"group": None, "reasons": ["2 of 12 rows repeat another one"]},
    ]
    record = {"calibration_hash": "d" * 64, "mix": "calib/mix.yaml", "warnings": warnings}
    write_json(config.workspace.calibration_check, record)
    said: list[str] = []
    make_variant(config, "gptq", said.append)
    about_it = [line for line in said if "calibration" in line]
    assert about_it == [
        "warning: calibration: held-out/code: few tokens; far",
        "warning: calibration: calib/mix.yaml: 2 of 12 rows repeat another one",
    ]
    said.clear()
    make_variant(config, "fp8", said.append)  # takes no rows
    write_json(config.workspace.calibration_check, {**record, "calibration_hash": "e" * 64})
    make_variant(config, "gptq", said.append)  # the check of another set
    assert not any("calibration" in line for line in said)


def test_a_tools_own_default_is_found(
    config: Config, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPTQ orders columns unless it is told not to, whatever the scheme leaves out."""

    def worker(env: str, name: str, request: dict[str, Any], *_: Any) -> dict[str, Any]:
        write_checkpoint(Path(request["output"]))
        scheme = {
            **request["scheme"],
            "weights": {**request["scheme"]["weights"], "actorder": "weight"},
        }
        write_quantization(Path(request["output"]), scheme)
        return {}

    monkeypatch.setattr(_stage, "run_worker", worker)
    with pytest.raises(WorkerError, match="another than was asked for: its weights are"):
        make_variant(config, "gptq", silent)
    assert not config.workspace.checkpoint("gptq").exists()
