"""Runs a worker: request JSON in, result JSON out, under another interpreter."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from qpipe.envs._sync import environment
from qpipe.errors import EnvError, WorkerError
from qpipe.paths import PACKAGE, Workspace
from qpipe.processes import spawned, tail
from qpipe.records import digest, hash_file

__all__ = ["run_worker", "worker_hash"]

PREFIX = "[qpipe] "
REFUSED = 3
WORKER_ENV = {
    "HF_HUB_OFFLINE": "1",
    # libgomp's threads spin long for one that another process has pushed off its core. Seen on two
    # cores, GPTQ: 101 s beside a busy process and 31 to 39 s alone; with a short spin 52 and 32 s;
    # with none (OMP_WAIT_POLICY=PASSIVE) 40 s, but 43 to 45 s alone.
    "GOMP_SPINCOUNT": "1000",
}
IMPORTED = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
KILLED = "it was killed: it has usually run out of memory; take fewer or shorter rows"


def run_worker(
    env: str,
    worker: str,
    request: dict[str, Any],
    workspace: Workspace,
    label: str,
    progress: Callable[[str], None],
    extra_env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run ``workers/<worker>.py`` and return its result.

    ``label`` names the log. Lines the worker marks as progress are passed on.

    Raises:
        EnvError: the worker refused, saying why and how to mend it.
        WorkerError: it died; carries the log's last lines and the log's path.
    """
    python = environment(env, workspace).python
    log = workspace.logs / f"{worker}-{label}.log"
    with tempfile.TemporaryDirectory(prefix="qpipe-") as folder:
        request_path, result_path = Path(folder, "request.json"), Path(folder, "result.json")
        request_path.write_text(json.dumps(request), encoding="utf-8")
        script = PACKAGE / "workers" / f"{worker}.py"
        command = [str(python), "-u", str(script), str(request_path), str(result_path)]
        with spawned(command, log, {**WORKER_ENV, **(extra_env or {})}) as child:
            seen = 0
            while child.poll() is None:
                time.sleep(0.2)
                seen = _pass_on(log, seen, progress)
            _pass_on(log, seen, progress)
        result: dict[str, Any] = {}
        if result_path.exists():
            result = json.loads(result_path.read_text(encoding="utf-8"))
        if child.returncode == REFUSED and "refused" in result:
            raise EnvError(result["refused"], mend=result["mend"])
        if child.returncode != 0 or not result_path.exists():
            raise WorkerError(
                f"worker '{worker}' ({label}) died with exit code {child.returncode}; "
                f"the log's last lines:\n{tail(log)}\n  log: {log}",
                mend=KILLED if child.returncode == -9 else "read the log",
            )
        return result


def worker_hash(*workers: str) -> str:
    """Hash of workers' code and of all that they import beside it, for keys of what they made."""
    folder = PACKAGE / "workers"
    found, waiting = set[str](), {*workers}
    while waiting:
        found |= waiting
        text = "".join((folder / f"{name}.py").read_text(encoding="utf-8") for name in waiting)
        waiting = {name for name in IMPORTED.findall(text) if (folder / f"{name}.py").exists()}
        waiting -= found
    return digest([hash_file(folder / f"{name}.py") for name in sorted(found)])


def _pass_on(log: Path, seen: int, progress: Callable[[str], None]) -> int:
    """Report the progress lines written since byte ``seen``; returns the new position."""
    with log.open("rb") as file:
        file.seek(seen)
        new = file.read()
    complete = new[: new.rfind(b"\n") + 1]
    for line in complete.decode("utf-8", errors="replace").splitlines():
        if line.startswith(PREFIX):
            progress(line.removeprefix(PREFIX))
    return seen + len(complete)
