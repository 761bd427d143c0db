from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from qpipe import hardware
from qpipe.hardware import Hardware, detect
from tests.workspace_fixture import A100, AMX, AVX2, H100

CPUINFO = "model name\t: Intel(R) Xeon(R) 6980P\nflags\t\t: fpu avx2 amx_tile\nbugs\t\t: spectre\n"
T4 = Hardware("host", frozenset(), 8, 64.0, ("Tesla T4",), 7.5)


def test_native_dtype() -> None:
    found = [machine.native_dtype for machine in (AVX2, AMX, T4, A100, H100)]
    # Below compute capability 8.0 the engine refuses bfloat16.
    assert found == ["float32", "bfloat16", "float16", "bfloat16", "bfloat16"]


def test_record_is_json_and_keeps_telling_flags() -> None:
    machine = Hardware("x", frozenset({"avx2", "amx_tile", "fpu"}), 2, 8.0, ("G",), 9.0)
    record = machine.record()
    assert record["cpu_flags"] == ["amx_tile", "avx2"]
    assert record["gpus"] == ["G"]
    assert json.loads(json.dumps(record)) == record


def test_cpuinfo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_cpuinfo", lambda: CPUINFO)
    assert hardware._cpu_name() == "Intel(R) Xeon(R) 6980P"
    assert hardware._cpu_flags() == {"fpu", "avx2", "amx_tile"}


@pytest.mark.parametrize(
    ("code", "said", "wanted"),
    [
        (0, "NVIDIA H100, SXM, 9.0\nNVIDIA A100, 8.0\n", (("NVIDIA H100, SXM", "NVIDIA A100"), 8.0)),
        (0, "Tesla T4, 7.5\nNVIDIA Graphics Device, [N/A]\n", (("Tesla T4",), 7.5)),
        (0, "", ((), None)),
        (9, "Failed to initialize NVML, 1\n", ((), None)),
    ],
)  # fmt: skip
def test_gpus(
    monkeypatch: pytest.MonkeyPatch, code: int, said: str, wanted: tuple[tuple[str, ...], Any]
) -> None:
    monkeypatch.setattr(hardware.shutil, "which", lambda name: f"/usr/bin/{name}")
    done = subprocess.CompletedProcess([], code, stdout=said)
    monkeypatch.setattr(hardware.subprocess, "run", lambda *_, **__: done)
    assert hardware._gpus() == wanted


def test_no_driver_means_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware.shutil, "which", lambda _: None)
    assert hardware._gpus() == ((), None)


def test_this_machine() -> None:
    found = detect()
    assert found.cores >= 1
    assert found.memory_gib > 0
    assert found.device == ("cuda" if found.gpus else "cpu")
