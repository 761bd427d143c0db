"""Child processes: quiet environment, own process group, ended on every way out, SIGKILL too."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["QUIET", "child_environment", "end_group", "spawned", "tail"]

# No tool underneath phones home, and no cell waits for a hub it cannot reach.
QUIET = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "VLLM_NO_USAGE_STATS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # Advice about a missing torch: the control environment has none on purpose.
    "TRANSFORMERS_VERBOSITY": "error",
}
# CUDA counts the fastest GPU first unless told to count as the driver's tool, and qpipe, do.
ALWAYS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
# They speak of the parent's interpreter. Without bytecode each engine and worker would compile all
# it imports at every start: 35 s for the engine on two cores, where 18 s do.
NOT_INHERITED = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")

GRACE_S = 10
# Its input ends when this process does, however that comes about.
WATCH = """
read -r group || exit
read -r _
kill -TERM "-$group"
left=$0
while [ "$left" -gt 0 ] && kill -0 "-$group"; do sleep 1; left=$((left - 1)); done
kill -KILL "-$group"
"""


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The parent's environment with telemetry off (unless the user set it) and ``extra`` on top."""
    inherited = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
    return {**QUIET, **inherited, **ALWAYS, **(extra or {})}


@contextmanager
def spawned(
    command: list[str], log: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A child in its own process group with output in ``log``.

    The group ends with the block, and within ``GRACE_S`` seconds if this process is killed in it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file, _watch() as watched:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=child_environment(env),
            start_new_session=True,
        )
        try:
            watched(child)
            yield child
        finally:
            end_group(child)


@contextmanager
def _watch() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """A shell in a session of its own that ends a child's group once this process is dead.

    ``PR_SET_PDEATHSIG`` would reach the child only, not what it started.
    """
    shell = subprocess.Popen(
        ["/bin/sh", "-c", WATCH, str(GRACE_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pipe = shell.stdin
    assert pipe is not None

    def watched(child: subprocess.Popen[bytes]) -> None:
        pipe.write(b"%d\n" % child.pid)
        pipe.flush()

    try:
        yield watched
    finally:
        shell.kill()
        shell.communicate()


def end_group(child: subprocess.Popen[bytes], grace_s: float = GRACE_S) -> None:
    """SIGTERM to the whole group, SIGKILL to what is left after ``grace_s`` seconds."""
    try:
        for sig in (signal.SIGTERM, signal.SIGKILL):
            if not _signal_group(child.pid, sig):
                break
            deadline = time.monotonic() + grace_s
            while time.monotonic() < deadline:
                child.poll()  # reaps the leader, so that an empty group is seen as empty
                if not _signal_group(child.pid, 0):
                    break
                time.sleep(0.05)
        child.wait()
    except BaseException:  # a second Ctrl-C ends the patience, not the duty
        _signal_group(child.pid, signal.SIGKILL)
        raise


def _signal_group(group: int, sig: int) -> bool:
    try:
        os.killpg(group, sig)
    except ProcessLookupError:
        return False
    return True


def tail(log: Path, lines: int = 20) -> str:
    """The last lines of a log: progress bars reduced to their last state, long lines cut."""
    if not log.exists():
        return ""
    text = log.read_text(encoding="utf-8", errors="replace")
    kept = [line.rsplit("\r", 1)[-1][:300] for line in text.rstrip().split("\n")]
    return "\n".join(kept[-lines:])
