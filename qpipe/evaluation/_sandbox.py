"""Runs a model's code with its tests in a sandbox: namespaces and limits of Linux."""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import psutil

from qpipe.errors import EnvError

__all__ = ["LIMITS", "passes", "require_sandbox"]

LIMITS = {
    "cpu_s": 3,
    "wall_s": 10,
    "memory_bytes": 512 << 20,
    "file_bytes": 4 << 20,
    "tmp_bytes": 16 << 20,
    "files": 32,
    "processes": 4,
}
"""Of one answer; memory and CPU time are those of each process."""

_JAIL = Path(__file__).with_name("_jail.py")
_READY = b"ready\n"
_GRACE_S = 5
# Nobody has these user IDs; one for each sandbox, as processes are counted by user.
_USERS = range(61184, 65280)

# Passes only where nothing can be reached and nothing can grow.
_PROBE = """
import os, socket
assert not os.path.exists("/etc") and not os.path.exists("/proc")
assert [name for _, name in socket.if_nameindex()] == ["lo"]

def refused(act):
    try:
        act()
    except OSError:
        return True
    return False

assert refused(lambda: open("/x", "w"))
assert refused(lambda: socket.create_connection(("127.0.0.1", 9), 1))
assert refused(lambda: [os.fork() or os._exit(0) for _ in range(64)])
"""


def passes(code: str, tests: str) -> bool:
    """Whether ``tests`` run to their end after ``code``, within ``LIMITS``.

    The token that says so is unknown to the code unless it looks for it in its own process: a
    sandbox holds what a model writes, not who writes to deceive it.

    Raises:
        EnvError: there is no sandbox on this machine.
    """
    how, problem = _way()
    if how is None:
        raise _refused(problem)
    try:
        return _run(how, code, tests)
    except EnvError as error:
        raise EnvError(
            f"the sandbox for code that a model wrote failed: {error.message}",
            mend="run the command again on a machine that is less busy; answers are kept",
        ) from error


def require_sandbox() -> None:
    """Check that model code can be shut in here: a probe tries to get out.

    Raises:
        EnvError: it cannot, and why.
    """
    how, problem = _way()
    if how is None:
        raise _refused(problem)


def _refused(problem: str) -> EnvError:
    return EnvError(
        f"this machine has no sandbox for code that a model wrote: {problem}",
        mend="use Linux with util-linux and user namespaces (kernel.unprivileged_userns_clone=1,"
        " or a container that may unshare), or take rows of scorer 'code_tests' out of the suite",
    )


@lru_cache(maxsize=1)
def _way() -> tuple[tuple[str, ...] | None, str]:
    """The namespaces that hold here, as flags of ``unshare``; or why none do."""
    if not sys.platform.startswith("linux"):
        return None, f"it needs Linux, not {sys.platform}"
    if not _unshare():
        return None, "there is no `unshare` (util-linux)"
    # Root needs no user namespace, and gives up being root itself.
    ways = [("--user", "--map-root-user")] if os.geteuid() else [(), ("--user", "--map-root-user")]
    problem = ""
    for way in ways:
        try:
            if _run(way, "", _PROBE):
                return way, ""
            problem = "what was tried from inside got out"
        except EnvError as error:
            problem = error.message
    return None, problem


def _run(way: tuple[str, ...], code: str, tests: str) -> bool:
    token = secrets.token_hex(16)
    read, write = os.pipe()
    unshare = [_unshare(), *way, "--net", "--mount", "--pid", "--ipc", "--uts", "--fork"]
    # Alone, so that nothing else is reachable: own environment, and hashes that are always the same
    # (which `-I` would not take).
    python = [_base_python(), "-s", "-P", "-S", "-B"]
    env = {"HOME": "/tmp", "TMPDIR": "/tmp", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1"}
    env["LD_LIBRARY_PATH"] = f"{sys.base_prefix}/lib"
    with (
        tempfile.TemporaryDirectory(prefix="qpipe-sandbox-") as root,
        tempfile.TemporaryFile() as request,
        tempfile.TemporaryFile() as said,
    ):
        user = None if way else _USERS[os.getpid() % len(_USERS)]
        body = {"root": root, "user": user, "limits": LIMITS, "token": token}
        request.write(json.dumps({**body, "code": code, "tests": tests}).encode())
        request.seek(0)
        try:
            child = subprocess.Popen(
                [*unshare, "--kill-child", *python, str(_JAIL), str(write)],
                stdin=request,
                stdout=said,
                stderr=said,
                pass_fds=[write],
                env=env,
                start_new_session=True,
            )
        finally:
            os.close(write)
        try:
            heard = _hear(read, LIMITS["wall_s"] + _GRACE_S)
        finally:
            os.close(read)
            _end(child)
        if not heard.startswith(_READY):
            said.seek(0)
            lines = said.read(10_000).decode(errors="replace").strip().splitlines()
            raise EnvError(lines[-1] if lines else "it did not start")
    return heard == _READY + token.encode()


def _hear(pipe: int, seconds: float) -> bytes:
    """What comes through ``pipe`` until all writers are gone; a flood is not waited for."""
    heard, deadline = b"", time.monotonic() + seconds
    while len(heard) < 100 and (left := deadline - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        part = os.read(pipe, 100)
        if not part:
            break
        heard += part
    return heard


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the sandbox, whatever its processes did to stay: with its first all others end."""
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(child.pid).children():
            with suppress(psutil.NoSuchProcess):
                process.kill()
    child.kill()
    child.wait()


def _unshare() -> str:
    return shutil.which("unshare") or ""


def _base_python() -> str:
    """The interpreter behind a virtual environment, whose libraries are beside it."""
    return str(Path(getattr(sys, "_base_executable", None) or sys.executable).resolve())
