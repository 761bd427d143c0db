"""Runs code that a model wrote where it can do no harm: a script that ``_sandbox`` starts.

It runs in namespaces of its own (network, mounts, processes, IPC) and shuts itself in: a new root
that holds Python's libraries, read-only, and an empty ``/tmp``; no capabilities; limits. Only the
standard library can be imported here.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["main"]

_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC = 1, 2, 4, 8, 32, 4096, 16384
_RELATIME = (4096, 1 << 21)  # as statvfs says it, as mount takes it
_DETACH = 2
_NEW_USER = 0x10000000
_BOUNDING_DROP, _NO_NEW_PRIVILEGES, _AMBIENT, _CLEAR_ALL = 24, 38, 47, 4
_CAPABILITIES_V3 = 0x20080522
_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64")


def main() -> None:
    """Read a request, shut in, say ``ready``, and say the request's token if the tests pass."""
    request = json.loads(sys.stdin.buffer.read())
    says, limits = int(sys.argv[1]), request["limits"]
    _shut_in(request["root"], request["user"], limits["tmp_bytes"])
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        _limit(limits)
        nowhere = os.open("/dev/null", os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        os.write(says, b"ready\n")
        _run(request["code"], request["tests"], request["token"].encode(), says)
    _wait(child, limits["wall_s"])
    # The end of a PID namespace's first process ends all others.
    os._exit(0)


def _run(code: str, tests: str, token: bytes, says: int) -> None:
    # The code may replace any function of any module: what judges it is at hand before.
    run, build, write, leave, trace = exec, compile, os.write, os._exit, sys.settrace
    judge = build(tests, "tests", "exec")
    names: dict[str, Any] = {"__name__": "answer"}
    try:
        run(build(code, "answer", "exec"), names)
        trace(None)
        run(judge, names)
        write(says, token)
    except BaseException:
        leave(1)
    leave(0)


def _wait(child: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        signal.sigtimedwait([signal.SIGCHLD], left)
        while True:
            try:
                ended, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if ended == child:
                return
            if ended == 0:
                break


def _shut_in(root: str, user: int | None, tmp_bytes: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
        arguments = [text and text.encode() for text in (source, target, kind)]
        if libc.mount(*arguments, ctypes.c_ulong(flags), data.encode()):
            _fail(f"mount {target}")

    mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
    for path in _read_only_folders():
        inside = root + path
        if Path(path).is_symlink() and path in _LIBRARIES:
            Path(inside).parent.mkdir(parents=True, exist_ok=True)
            Path(inside).symlink_to(Path(path).readlink())
        elif Path(path).is_dir() and not Path(inside).exists():
            Path(inside).mkdir(parents=True)
            mount(path, inside, None, _BIND | _REC)
            mount("none", inside, None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _kept(inside))
    for name in ("null", "urandom"):
        Path(root, "dev").mkdir(exist_ok=True)
        Path(root, "dev", name).touch()
        mount(f"/dev/{name}", f"{root}/dev/{name}", None, _BIND)
    Path(root, "tmp").mkdir()
    flags = _NOSUID | _NODEV | _NOEXEC
    mount("tmpfs", f"{root}/tmp", "tmpfs", flags, f"mode=1777,size={tmp_bytes},nr_inodes=1000")
    mount("none", root, None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    os.chdir(root)
    if libc.pivot_root(b".", b"."):
        _fail("pivot_root")
    if libc.umount2(b".", _DETACH):
        _fail("umount")
    os.chdir("/tmp")
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    # A user without a name in its own namespace can make no namespace to be mighty in. Where this
    # is refused, so it is to the code.
    libc.unshare(_NEW_USER)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        libc.prctl(_BOUNDING_DROP, capability, 0, 0, 0)
    if libc.capset((ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0), (ctypes.c_uint32 * 6)()):
        _fail("capset")


def _read_only_folders() -> list[str]:
    prefixes = dict.fromkeys([sys.base_prefix, sys.base_exec_prefix])
    return [*_LIBRARIES, *(f"{prefix}/{lib}" for prefix in prefixes for lib in ("lib", "lib64"))]


def _kept(path: str) -> int:
    """Flags of a mount that a user namespace may not take away."""
    found = os.statvfs(path).f_flag
    kept = found & (_NOSUID | _NODEV | _NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME)
    return kept | (_RELATIME[1] if found & _RELATIME[0] else 0)


def _limit(limits: dict[str, int]) -> None:
    for name, value in (
        ("AS", limits["memory_bytes"]),
        ("CPU", limits["cpu_s"]),
        ("FSIZE", limits["file_bytes"]),
        ("NOFILE", limits["files"]),
        ("NPROC", limits["processes"]),
        ("CORE", 0),
        ("MEMLOCK", 0),
        ("MSGQUEUE", 0),
    ):
        which = getattr(resource, f"RLIMIT_{name}")
        given = resource.getrlimit(which)[1]
        value = value if given == resource.RLIM_INFINITY else min(value, given)
        resource.setrlimit(which, (value, value))


def _fail(what: str) -> None:
    raise OSError(f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
