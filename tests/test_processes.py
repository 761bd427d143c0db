from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from qpipe import processes
from qpipe.processes import child_environment, end_group, spawned, tail

# Starts a child of its own, tells both ids, and waits.
PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(os.getpid(), child.pid, flush=True)
time.sleep(60)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(60)
"""


def wait_for_line(log: Path) -> str:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if log.exists() and "\n" in (text := log.read_text()):
            return text
        time.sleep(0.02)
    raise AssertionError("the child said nothing")


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("stop", [None, KeyboardInterrupt, ValueError])
def test_the_whole_group_ends_with_the_block(
    tmp_path: Path, stop: type[BaseException] | None
) -> None:
    log = tmp_path / "logs" / "child.log"
    pids: list[int] = []

    def block() -> None:
        with spawned([sys.executable, "-c", PARENT], log):
            pids.extend(int(word) for word in wait_for_line(log).split())
            assert all(alive(pid) for pid in pids)
            if stop is not None:
                raise stop

    if stop is None:
        block()
    else:
        with pytest.raises(stop):
            block()
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)


def test_grandchildren_outlive_no_leader(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    without_wait = PARENT.rsplit("time.sleep", 1)[0]
    with spawned([sys.executable, "-c", without_wait], log) as child:
        _, grandchild = (int(word) for word in wait_for_line(log).split())
        child.wait(timeout=20)
        assert alive(grandchild)
    assert not alive(grandchild)


# What is ignored stays so in children.
DEAF_PARENT = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{PARENT}"
OWNER = """
import sys, time
from pathlib import Path
from qpipe import processes
processes.GRACE_S = 1
with processes.spawned([sys.executable, "-c", sys.argv[1]], Path(sys.argv[2])):
    time.sleep(60)
"""


@pytest.mark.parametrize("body", [PARENT, DEAF_PARENT])
def test_the_whole_group_ends_when_its_owner_is_killed(tmp_path: Path, body: str) -> None:
    log = tmp_path / "log"
    owner = subprocess.Popen([sys.executable, "-c", OWNER, body, log])
    wait_for_line(log)
    family = psutil.Process(owner.pid).children(recursive=True)
    assert len(family) == 3, "the child, its own child, and what watches them"
    owner.kill()
    owner.wait()
    _, left = psutil.wait_procs(family, timeout=20)
    assert not [process for process in left if alive(process.pid)]


def test_nothing_watches_a_group_that_ended(tmp_path: Path) -> None:
    before = psutil.Process().children()
    with spawned([sys.executable, "-c", ""], tmp_path / "log"):
        assert len(psutil.Process().children()) == len(before) + 2
    assert psutil.Process().children() == before


def start_stubborn(log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        child = subprocess.Popen(
            [sys.executable, "-c", STUBBORN], stdout=file, start_new_session=True
        )
    wait_for_line(log)
    return child


def test_child_deaf_to_sigterm_is_killed(tmp_path: Path) -> None:
    child = start_stubborn(tmp_path / "log")
    end_group(child, grace_s=0.2)
    assert child.returncode == -9


def test_second_interrupt_kills_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = start_stubborn(tmp_path / "log")

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=interrupt)
    monkeypatch.setattr(processes, "time", clock)
    with pytest.raises(KeyboardInterrupt):
        end_group(child)
    assert child.wait(timeout=20) == -9


def test_ending_twice_is_harmless(tmp_path: Path) -> None:
    with spawned([sys.executable, "-c", "print('done')"], tmp_path / "log") as child:
        child.wait(timeout=20)
    end_group(child)
    assert child.returncode == 0
    assert (tmp_path / "log").read_text() == "done\n"


def test_environment_is_quiet_and_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"):
        monkeypatch.setenv(name, "somewhere")
    monkeypatch.setenv("DO_NOT_TRACK", "0")
    monkeypatch.delenv("VLLM_NO_USAGE_STATS", raising=False)
    made = child_environment({"A": "b", "HF_HUB_OFFLINE": "1"})
    assert not {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"} & set(made)
    assert made["DO_NOT_TRACK"] == "0"  # what the user set stays
    assert made["VLLM_NO_USAGE_STATS"] == "1"
    assert made["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert (made["A"], made["HF_HUB_OFFLINE"]) == ("b", "1")
    assert made["PATH"] == os.environ["PATH"]


def test_tail(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail(log) == ""
    rows = [f"line {number}" for number in range(30)] + ["0%\r50%\r100%", "x" * 999]
    log.write_bytes("\n".join(rows).encode() + b"\n\xff end\n\n")
    assert tail(log, 3) == f"100%\n{'x' * 300}\n\ufffd end"
    assert len(tail(log).splitlines()) == 20
