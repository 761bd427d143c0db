"""Starts the engine and sees that it ends."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import psutil

from qpipe.envs import environment
from qpipe.errors import EngineError, EnvError
from qpipe.hardware import Hardware, detect
from qpipe.paths import Workspace
from qpipe.processes import spawned, tail
from qpipe.serving._client import Client
from qpipe.serving._kernels import kernels_of, require_kernels
from qpipe.serving._plan import Plan

__all__ = ["Server", "start"]

TELL_EVERY_S = 15.0


@dataclass(frozen=True)
class Server:
    """A healthy server."""

    plan: Plan
    client: Client
    log: Path
    pid: int
    start_s: float
    engine_version: str
    kernels: tuple[str, ...]

    def resident_gib(self) -> float:
        """Resident memory of the server's process tree, GiB."""
        root = psutil.Process(self.pid)
        total = 0
        for process in [root, *root.children(recursive=True)]:
            try:
                total += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return round(total / 2**30, 3)

    def alive(self) -> bool:
        """Whether the engine's process runs; one that ended and was not reaped does not."""
        try:
            return bool(psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    def wait(self) -> NoReturn:
        """Stay until Ctrl-C.

        Raises:
            EngineError: the engine died; carries the log's last lines.
        """
        while self.alive():
            time.sleep(1)
        raise _failed("the engine died", self.log)

    def provenance(self, hardware: Hardware) -> dict[str, Any]:
        """What every figure measured on this server was measured on."""
        return {
            "checkpoint_hash": self.plan.checkpoint_hash,
            "scheme_hash": self.plan.scheme_hash,
            "engine": "vllm",
            "engine_version": self.engine_version,
            "kernels": list(self.kernels),
            **self.plan.mode.record(),
            "hardware": hardware.record(),
            "serve": self.plan.serve.model_dump(exclude_none=True),
            "environment": _of_the_engine(os.environ),
        }


def _of_the_engine(environment: Mapping[str, str]) -> dict[str, str]:
    """What the shell tells the engine besides the release; keys stay secret."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith("VLLM_") and not name.endswith("KEY")
    }


@contextmanager
def start(plan: Plan, workspace: Workspace, progress: Callable[[str], None]) -> Iterator[Server]:
    """A server for ``plan`` on a loopback port; its process group ends with the block.

    Raises:
        EnvError: the fixed port is taken.
        EngineError: the engine died, was not healthy in time, runs another arithmetic than the
            plan's, or without the simulation that it asks for; carries the log's last lines.
    """
    python = environment("serve", workspace).python
    port = _port(plan.serve.port)
    log = workspace.logs / f"serve-{plan.variant}.log"
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--host", "127.0.0.1", "--port", str(port), *plan.arguments]
    env = {"HF_HUB_OFFLINE": "1", "VLLM_SERVER_DEV_MODE": "1", **plan.env}
    progress(f"starting the engine ({plan.mode.mode}; log: {log})")
    started = time.monotonic()
    with (
        spawned(command, log, env) as child,
        Client(f"http://127.0.0.1:{port}", plan.variant) as client,
    ):
        limit = plan.serve.start_timeout_s or 300
        told = 0.0
        while not client.healthy():
            waited = time.monotonic() - started
            if waited - told >= TELL_EVERY_S:
                told = waited
                progress(f"waiting for the engine: {tail(log, 1).strip()[:100]}")
            if child.poll() is not None:
                raise _failed(f"the engine died with exit code {child.returncode}", log)
            if waited > limit:
                raise _failed(f"the engine was not healthy after {limit} s", log)
            time.sleep(0.5)
        if (served := client.models()) != [plan.variant]:
            # Somebody took the port between our look and the engine's bind.
            raise EngineError(
                f"port {port} answers with {', '.join(served)}, not with '{plan.variant}'",
                mend="another server took the port meanwhile; run the command again",
            )
        seconds = time.monotonic() - started
        progress(f"engine healthy after {seconds:.0f} s")
        kernels = kernels_of(log)
        require_kernels(plan, kernels, detect().device, log)
        server = Server(plan, client, log, child.pid, seconds, client.version(), kernels)
        try:
            _check_simulation(server)
            yield server
        except EngineError as error:
            # A request that failed may be the first sign of a death.
            for _ in range(30):
                if not server.alive():
                    raise _failed(f"the engine died ({error.message})", log) from error
                time.sleep(0.1)
            raise


def _port(fixed: int | None) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", fixed or 0))
        except OSError as error:
            mend = "free it, or remove `port` to let qpipe choose one"
            raise EnvError(f"port {fixed} is taken", mend=mend) from error
        port: int = probe.getsockname()[1]
        return port


def _failed(message: str, log: Path) -> EngineError:
    return EngineError(
        f"{message}{_cause(log)}; the log's last lines:\n{tail(log)}\n  log: {log}",
        mend="read the log; `serve:` in the release file holds the engine's settings",
    )


def _cause(log: Path) -> str:
    """The first exception in the log: the last lines tell of what followed elsewhere."""
    text = log.read_text(encoding="utf-8", errors="replace")
    found = re.search(r"^(?:\(.*\] )?((?:\w+\.)*\w*(?:Error|Exception): .+)$", text, re.MULTILINE)
    return f" ({found.group(1)[:300]})" if found else ""


def _check_simulation(server: Server) -> None:
    """A simulation that did not load would be served around in silence."""
    wanted = server.plan.simulated
    if not wanted:
        return
    server.client.complete([0], 1)
    for calls in server.client.call_workers("qpipe_simulation"):
        for part, places in wanted.items():
            if len(calls[part]) != places:
                raise EngineError(
                    f"{part} were rounded in {len(calls[part])} of {places} places",
                    mend="the engine's version does not fit the simulation; see its log",
                )
