from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qpipe.config import Config
from qpipe.errors import ConfigError, MissingInput
from qpipe.paths import Workspace
from qpipe.records import read_json, write_json
from qpipe.sensitivity import _stage, rank_units
from tests.workspace_fixture import silent, small_config, write_model

QKV, DOWN = "model.layers.0.self_attn.qkv_proj", "model.layers.0.mlp.down_proj"


@pytest.fixture
def config(workspace: Workspace) -> Config:
    write_model(workspace)
    write_model(workspace, "gptq")
    write_json(workspace.calibration("mix") / "report.json", {"hash": "d" * 64})
    return small_config(workspace)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    requests: list[dict[str, Any]] = []

    def worker(env: str, name: str, request: dict[str, Any], *_: Any) -> dict[str, Any]:
        requests.append(request)
        costs = {DOWN: 0.1, QKV: 0.1, "first": 0.3, "last": 0.0}
        units = [{"unit": unit, "kl": kl} for unit, kl in costs.items()]
        figures = {"tokens": 16, "control_kl": 0.0, "seconds": 1.0, "versions": {}}
        return {**figures, "units": units[::-1]}

    monkeypatch.setattr(_stage, "run_worker", worker)
    return requests


def test_costliest_first(config: Config, asked: list[dict[str, Any]]) -> None:
    record = rank_units(config, "gptq", silent)
    assert [row["unit"] for row in record["units"]] == ["first", DOWN, QKV, "last"]
    (request,) = asked
    assert set(request["units"]) == {QKV, DOWN}
    assert (request["samples"], request["tokens"]) == (2, 8)
    assert record["checkpoint_hash"].startswith("gptq")
    kept = read_json(config.workspace.sensitivity("gptq"), "-")
    assert kept["units"] == record["units"]


def test_kept_results_follow_what_they_were_measured_on(
    config: Config, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rank_units(config, "gptq", silent)
    rank_units(config, "gptq", silent)
    write_json(config.workspace.calibration("mix") / "report.json", {"hash": "e" * 64})
    rank_units(config, "gptq", silent)
    more = small_config(config.workspace, sensitivity={"gptq": {"samples": 3}})
    rank_units(more, "gptq", silent)
    monkeypatch.setattr(_stage, "worker_hash", lambda *_: "mended")
    rank_units(more, "gptq", silent)
    requirements = config.workspace.root / "configs" / "envs" / "quantize.txt"
    requirements.parent.mkdir(parents=True, exist_ok=True)
    requirements.write_text("llmcompressor==9")
    rank_units(more, "gptq", silent)
    stores = [Path(request["store"]).name for request in asked]
    assert stores[0] == stores[1]
    assert len(set(stores)) == 5


@pytest.mark.parametrize("name", ["bf16", "gptq-mixed", "other"])
def test_only_a_quantized_variant_can_be_ranked(config: Config, name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' is no variant"):
        rank_units(config, name, silent)


def test_nothing_to_put_back(config: Config) -> None:
    with pytest.raises(ConfigError, match="'kv' leaves weights at 16 bits"):
        rank_units(config, "kv", silent)


def test_missing_inputs(config: Config, workspace: Workspace) -> None:
    with pytest.raises(MissingInput, match="qpipe quantize fp8"):
        rank_units(config, "fp8", silent)
    (workspace.calibration("mix") / "report.json").unlink()
    with pytest.raises(MissingInput, match="qpipe calibrate"):
        rank_units(config, "gptq", silent)
