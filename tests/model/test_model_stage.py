from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import httpx
import pytest

from qpipe.config import Config
from qpipe.errors import ConfigError, EnvError, QpipeError
from qpipe.model import _stage, make_model
from qpipe.paths import Workspace
from qpipe.records import SCHEMA_VERSION, read_json
from tests.workspace_fixture import silent, small_config, write_checkpoint


def config_for(workspace: Workspace, source: str, **more: Any) -> Config:
    return small_config(workspace, model={"source": source, **more})


def test_path_source_copies_files_but_no_pickle(workspace: Workspace) -> None:
    folder = write_checkpoint(workspace.root / "base")
    for name in ("pytorch_model.bin", "training_args.pt", "generation_config.json"):
        (folder / name).write_text("{}")
    (folder / "sub").mkdir()
    manifest = make_model(config_for(workspace, "path:base"), silent)
    assert {path.name for path in workspace.model.iterdir()} == {
        "config.json",
        "generation_config.json",
        "manifest.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert read_json(workspace.model / "manifest.json", "-") == {
        "schema_version": SCHEMA_VERSION,
        **manifest,
    }
    assert manifest["source"] == "path:base"
    assert manifest["note"] is None
    assert manifest["parameters"] == manifest["stored_values"]


def test_path_source_that_is_no_model(workspace: Workspace) -> None:
    with pytest.raises(ConfigError, match="base is no folder"):
        make_model(config_for(workspace, "path:base"), silent)
    (workspace.root / "base").mkdir()
    with pytest.raises(ConfigError, match=r"no config\.json"):
        make_model(config_for(workspace, "path:base"), silent)
    assert list(workspace.out.iterdir()) == []


def hub(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[Any]:
    import huggingface_hub

    asked: list[Any] = []

    def snapshot(repo: str, **settings: Any) -> str:
        asked.append((repo, settings["revision"], settings["allow_patterns"]))
        assert "consolidated*" in settings["ignore_patterns"]
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    return asked


def test_hub_source(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_checkpoint(workspace.root / "snapshot")
    asked = hub(monkeypatch, folder)
    manifest = make_model(config_for(workspace, "hub:org/name@abc"), silent)
    (_, _, first), (repo, revision, patterns) = asked
    assert first == ["config.json"], "what is wrong there shows before gigabytes are fetched"
    assert (repo, revision) == ("org/name", "abc")
    assert manifest["revision"] == folder.name, "the commit that a branch was"
    assert not any(Path("pytorch_model.bin").match(pattern) for pattern in patterns)
    assert (workspace.model / "model.safetensors").is_file()


@pytest.mark.parametrize("kind", ["ConnectionError", "LocalEntryNotFoundError", "ReadTimeout"])
def test_hub_without_network(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from huggingface_hub import errors

    kinds = {**vars(errors), "ConnectionError": ConnectionError, "ReadTimeout": httpx.ReadTimeout}
    error = kinds[kind]("no route to host")
    hub(monkeypatch, error)
    with pytest.raises(EnvError, match="cannot fetch org/name from the hub: no route") as caught:
        make_model(config_for(workspace, "hub:org/name@abc"), silent)
    assert "path:FOLDER" in str(caught.value.mend)
    assert list(workspace.out.iterdir()) == []


def test_hub_on_a_full_disk(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    hub(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(EnvError, match="the disk is full") as caught:
        make_model(config_for(workspace, "hub:org/name@abc"), silent)
    assert "HF_HOME" in str(caught.value.mend)


def test_failing_fetch_keeps_the_old_model(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(workspace.root / "base")
    make_model(config_for(workspace, "path:base"), silent)
    hub(monkeypatch, ConnectionError("gone"))
    with pytest.raises(EnvError):
        make_model(config_for(workspace, "hub:org/name@abc"), silent)
    assert (workspace.model / "manifest.json").exists()


def test_package_source(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def unpack(requirement: str, folder: Path, log: Path) -> None:
        assert requirement == "dist==1"
        (folder / "dist").mkdir()
        (folder / "dist" / "m.gguf").write_text("")

    def worker(env: str, name: str, request: dict[str, Any], *_: Any) -> dict[str, Any]:
        asked.append(request)
        write_checkpoint(Path(request["output"]))
        return {}

    monkeypatch.setattr(_stage, "unpack_package", unpack)
    monkeypatch.setattr(_stage, "run_worker", worker)
    manifest = make_model(config_for(workspace, "package:dist==1/m.gguf"), silent)
    assert asked[0]["source"].endswith("dist/m.gguf")
    assert "m.gguf dequantized" in manifest["note"]
    with pytest.raises(QpipeError, match=r"holds no file 'n\.gguf'"):
        make_model(config_for(workspace, "package:dist==1/n.gguf"), silent)


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("source", ["path:base", "hub:org/name@abc"])
def test_what_is_copied(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, source: str, trusted: bool
) -> None:
    folder = write_checkpoint(workspace.root / "base")
    names = ("modeling_x.py", "consolidated.safetensors", "consolidated.safetensors.index.json")
    for name in (*names, "adapter.safetensors", "weights.bin"):
        (folder / name).write_text("{}")
    index = '{"weight_map": {"a": "model.safetensors"}}'
    (folder / "model.safetensors.index.json").write_text(index)
    asked = hub(monkeypatch, folder)
    make_model(config_for(workspace, source, trust_remote_code=trusted), silent)
    found = {path.name for path in workspace.model.iterdir()}
    assert found - {"modeling_x.py"} == {
        "config.json",
        "manifest.json",
        "model.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
    }
    assert ("modeling_x.py" in found) == trusted
    assert all(("*.py" in patterns) == trusted for *_, patterns in asked[1:])


@pytest.mark.parametrize("source", ["path:base", "hub:org/name@abc"])
def test_quantized_source(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    folder = write_checkpoint(workspace.root / "base")
    (folder / "config.json").write_text('{"quantization_config": {"bits": 4}}')
    hub(monkeypatch, folder)
    with pytest.raises(ConfigError, match="quantized already"):
        make_model(config_for(workspace, source), silent)
    assert list(workspace.out.iterdir()) == []


def test_hub_error_without_a_message(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    hub(monkeypatch, ConnectionError())
    with pytest.raises(EnvError, match="from the hub: ConnectionError"):
        make_model(config_for(workspace, "hub:org/name@abc"), silent)
