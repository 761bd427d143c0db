"""Child processes: quiet environment, own process group, ended on every way out."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
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


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The parent's environment with telemetry off (unless the user set it) and ``extra`` on top."""
    inherited = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
    return {**QUIET, **inherited, **ALWAYS, **(extra or {})}


@contextmanager
def spawned(
    command: list[str], log: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A child in its own process group with output in ``log``; the group ends with the block."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=child_environment(env),
            start_new_session=True,
        )
        try:
            yield child
        finally:
            end_group(child)


def end_group(child: subprocess.Popen[bytes], grace_s: float = 10.0) -> None:
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
