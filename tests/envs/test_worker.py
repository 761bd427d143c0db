from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qpipe.envs import _worker, run_worker, worker_hash
from qpipe.errors import EnvError, WorkerError
from qpipe.paths import PACKAGE, Workspace
from tests.conftest import FakeEnvironment

ECHO = """
import os, sys
from _protocol import Refusal, progress, run

def work(request):
    progress("started")
    print("a line that is none of the parent's business")
    if request.get("refuse"):
        raise Refusal("the request is odd", "make it even")
    if request.get("full"):
        raise OSError(28, "No space left on device")
    if request.get("die"):
        print("last words", file=sys.stderr, flush=True)
        os._exit(request["die"])
    if request.get("raise"):
        raise ValueError("unforeseen")
    progress("done: é")
    return {"got": request, "offline": os.environ["HF_HUB_OFFLINE"], "extra": os.environ.get("X")}

run(work)
"""


@pytest.fixture
def run(
    workspace: Workspace,
    make_environment: FakeEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Any:
    """Runs the worker above with the real protocol."""
    make_environment("quantize")
    folder = tmp_path / "package" / "workers"
    folder.mkdir(parents=True)
    (folder / "echo.py").write_text(ECHO)
    (folder / "_protocol.py").symlink_to(PACKAGE / "workers" / "_protocol.py")
    monkeypatch.setattr(_worker, "PACKAGE", folder.parent)
    said: list[str] = []

    def run(**request: Any) -> tuple[dict[str, Any], list[str]]:
        said.clear()
        answer = run_worker(
            "quantize", "echo", request, workspace, "label", said.append, {"X": "extra"}
        )
        return answer, said

    return run


def test_result_and_progress(run: Any, workspace: Workspace) -> None:
    answer, said = run(a=[1, "日本"])
    assert answer == {"got": {"a": [1, "日本"]}, "offline": "1", "extra": "extra"}
    assert said == ["started", "done: é"]
    assert "none of the parent's" in (workspace.logs / "echo-label.log").read_text()


def test_refusal(run: Any) -> None:
    with pytest.raises(EnvError, match="the request is odd") as caught:
        run(refuse=True)
    assert caught.value.mend == "make it even"


def test_full_disk_is_a_refusal(run: Any) -> None:
    with pytest.raises(EnvError, match=r"cannot write.*No space left"):
        run(full=True)


@pytest.mark.parametrize("request_", [{"die": 7}, {"die": 3}, {"raise": True}])
def test_death_carries_the_log(run: Any, workspace: Workspace, request_: dict[str, Any]) -> None:
    with pytest.raises(WorkerError) as caught:
        run(**request_)
    message = str(caught.value)
    words = "unforeseen" if "raise" in request_ else "last words"
    assert words in message
    assert f"log: {workspace.logs / 'echo-label.log'}" in message
    assert f"exit code {request_.get('die', 1)}" in message


def test_environment_comes_first(run: Any, workspace: Workspace) -> None:
    (workspace.envs / "quantize" / ".qpipe-hash").unlink()
    with pytest.raises(EnvError, match="qpipe env sync quantize"):
        run()


def test_lines_are_passed_on_whole(tmp_path: Path) -> None:
    log, said = tmp_path / "log", []
    log.write_bytes(b"[qpipe] one\nnoise\n[qpipe] tw")
    seen = _worker._pass_on(log, 0, said.append)
    assert said == ["one"]
    with log.open("ab") as file:
        file.write(b"o\n")
    seen = _worker._pass_on(log, seen, said.append)
    assert said == ["one", "two"]
    assert seen == log.stat().st_size


def test_what_a_worker_imports_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_worker, "PACKAGE", tmp_path)
    (tmp_path / "workers").mkdir()
    code = {
        "a": "import json\nfrom _near import x",
        "b": "def late():\n    import _far",
        "_near": "from _far import y\nimport _near",
        "_far": "",
        "_other": "",
    }
    for name, text in code.items():
        (tmp_path / "workers" / f"{name}.py").write_text(text)

    def hashes() -> list[str]:
        return [worker_hash("a"), worker_hash("b"), worker_hash("a", "b")]

    kept, changed = hashes(), {}
    for name, text in code.items():
        path = tmp_path / "workers" / f"{name}.py"
        path.write_text(text + "\n# other")
        changed[name] = [old != new for old, new in zip(kept, hashes(), strict=True)]
        path.write_text(text)
    assert changed == {
        "a": [True, False, True],
        "b": [False, True, True],
        "_near": [True, False, True],
        "_far": [True, True, True],
        "_other": [False, False, False],
    }
