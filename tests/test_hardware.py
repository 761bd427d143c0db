from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from qpipe import hardware
from qpipe.errors import EnvError
from qpipe.hardware import Hardware, detect, visible_gpus
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


H100_ROW = "0, GPU-aa11, 9.0, 1024, 81559, NVIDIA H100, SXM\n"
A100_ROW = "1, GPU-ab22, 8.0, 512, 40960, NVIDIA A100\n"
LISTING = """GPU 0: NVIDIA H100 (UUID: GPU-aa11)
GPU 1: NVIDIA A100 (UUID: GPU-ab22)
  MIG 1g.10gb     Device  0: (UUID: MIG-7e)
"""
DARK_ROW = "2, GPU-cc33, [N/A], [N/A], [N/A], NVIDIA Graphics Device\n"


@pytest.fixture
def smi(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Lets the driver's tool say something; ``detect`` forgets what it knew."""

    def says(stdout: str, code: int = 0, visible: str | None = None) -> None:
        done = subprocess.CompletedProcess([], code, stdout=stdout, stderr="")
        monkeypatch.setattr(hardware.shutil, "which", lambda name: f"/usr/bin/{name}")
        monkeypatch.setattr(hardware.subprocess, "run", lambda *_, **__: done)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        detect.cache_clear()

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield says
    detect.cache_clear()


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (H100_ROW + A100_ROW, (("NVIDIA H100, SXM", "NVIDIA A100"), 8.0)),
        (H100_ROW + DARK_ROW, (("NVIDIA H100, SXM",), 9.0)),
        ("", ((), None)),
    ],
)
def test_gpus(smi: Any, said: str, wanted: tuple[tuple[str, ...], float | None]) -> None:
    smi(said)
    assert (detect().gpus, detect().cuda_capability) == wanted


def test_device_memory(smi: Any) -> None:
    smi(H100_ROW + DARK_ROW)
    found = [(gpu.used_mib, gpu.total_mib) for gpu in visible_gpus()]
    assert found == [(1024, 81559), (None, None)]


@pytest.mark.parametrize("code", [0, 6])
def test_driver_without_devices_means_no_gpu(smi: Any, code: int) -> None:
    smi("No devices were found\n", code)
    assert detect().device == "cpu"


@pytest.mark.parametrize(
    ("said", "code", "cause"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\n", 18, "version mismatch"),
        ("", 9, "exit code 9"),
        (DARK_ROW, 0, "no compute capability of NVIDIA Graphics Device"),
    ],
)
def test_failing_driver_is_no_reason_for_the_cpu(
    smi: Any, said: str, code: int, cause: str
) -> None:
    smi(said, code)
    with pytest.raises(EnvError, match=cause) as caught:
        detect()
    assert "CUDA_VISIBLE_DEVICES= (empty)" in str(caught.value.mend)


@pytest.mark.parametrize("visible", ["", " ", "-1", "NoDevFiles"])
def test_cpu_on_purpose(smi: Any, visible: str) -> None:
    smi("NVML is broken", 9, visible)
    assert detect().device == "cpu"


@pytest.mark.parametrize(
    ("visible", "wanted"),
    [
        ("0", ["GPU-aa11"]),
        ("1,0", ["GPU-ab22", "GPU-aa11"]),
        ("1, -1, 0", ["GPU-ab22"]),
        ("GPU-ab22", ["GPU-ab22"]),
        ("MIG-7e", ["GPU-ab22"]),
    ],
)
def test_visible_devices(smi: Any, visible: str, wanted: list[str]) -> None:
    smi(H100_ROW + A100_ROW + LISTING, visible=visible)
    assert [gpu.uuid for gpu in visible_gpus()] == wanted


def test_capability_is_that_of_the_visible(smi: Any) -> None:
    smi(H100_ROW + A100_ROW, visible="0")
    assert (detect().gpus, detect().cuda_capability) == (("NVIDIA H100, SXM",), 9.0)


@pytest.mark.parametrize("visible", ["7", "GPU-aa", "GPU-zz", "MIG-1"])
def test_visible_device_that_is_none(smi: Any, visible: str) -> None:
    smi(H100_ROW + A100_ROW, visible=visible)
    with pytest.raises(EnvError, match=f"names '{visible}', which is not one GPU") as caught:
        detect()
    assert "0 (GPU-aa11), 1 (GPU-ab22)" in str(caught.value.mend)


def test_no_driver_means_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(hardware.shutil, "which", lambda _: None)
    assert visible_gpus() == []


def test_this_machine() -> None:
    found = detect()
    assert found.cores >= 1
    assert found.memory_gib > 0
    assert found.device == ("cuda" if found.gpus else "cpu")
