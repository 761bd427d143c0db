from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qpipe.errors import EnvError
from qpipe.paths import Workspace
from qpipe.records import read_json, write_json
from qpipe.serving import _simulated
from qpipe.serving._simulated import simulated_checkpoint
from tests.workspace_fixture import silent, small_config, write_checkpoint, write_model


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the workers that ran."""
    names: list[str] = []

    def worker(env: str, name: str, request: dict[str, Any], *_: Any) -> dict[str, Any]:
        names.append(name)
        write_checkpoint(Path(request["output"]))
        return {}

    monkeypatch.setattr(_simulated, "run_worker", worker)
    return names


def test_twin_is_made_once_a_checkpoint(workspace: Workspace, asked: list[str]) -> None:
    config = small_config(workspace)
    write_model(workspace)
    write_model(workspace, "gptq")
    first = simulated_checkpoint(config, "gptq", silent)
    assert simulated_checkpoint(config, "gptq", silent) == first
    assert asked == ["simulate"]
    assert (first / "model.safetensors").exists()
    path = workspace.checkpoint("gptq") / "manifest.json"
    manifest = read_json(path, "-")
    del manifest["schema_version"]
    write_json(path, {**manifest, "checkpoint_hash": "e" * 64})
    assert simulated_checkpoint(config, "gptq", silent) != first


def test_fp8_of_one_scale_a_tensor_names_what_the_engine_fuses(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[dict[str, Any]] = []

    def worker(env: str, name: str, request: dict[str, Any], *_: Any) -> dict[str, Any]:
        requests.append(request)
        write_checkpoint(Path(request["output"]))
        return {}

    monkeypatch.setattr(_simulated, "run_worker", worker)
    write_model(workspace)
    for scheme in ("fp8-static", "fp8-dynamic"):
        config = small_config(
            workspace, variants={"gptq": {"scheme": scheme}}, sensitivity={}, fallback={}
        )
        write_model(workspace, "gptq")
        path = workspace.checkpoint("gptq") / "manifest.json"
        manifest = {**read_json(path, "-"), "scheme_spec": config.schemes[scheme].model_dump()}
        del manifest["schema_version"]
        write_json(path, manifest)
        simulated_checkpoint(config, "gptq", silent)
    fused = [
        [name.rpartition(".")[2] for unit in each["fused"] for name in unit] for each in requests
    ]
    assert fused[0] and set(fused[0]) <= {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}
    assert fused[1] == []


def test_other_code_makes_another_twin(
    workspace: Workspace, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(workspace)
    write_model(workspace)
    write_model(workspace, "gptq")
    first = simulated_checkpoint(config, "gptq", silent)
    monkeypatch.setattr(_simulated, "worker_hash", lambda *_: "mended")
    assert simulated_checkpoint(config, "gptq", silent) != first
    assert len(asked) == 2


def test_short_disk_makes_no_twin(
    workspace: Workspace, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(workspace)
    write_model(workspace)
    write_model(workspace, "gptq")
    monkeypatch.setattr(_simulated, "disk_free", lambda _: 100)
    with pytest.raises(EnvError, match="disk for the dequantized weights") as caught:
        simulated_checkpoint(config, "gptq", silent)
    assert "free disk space" in (caught.value.mend or "")
    assert asked == [] and not (workspace.cache / "simulated").exists()
