"""What this machine is: CPU features, memory, GPUs."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

__all__ = ["Hardware", "detect"]


@dataclass(frozen=True)
class Hardware:
    """The part of the machine that decides which kernels can run."""

    cpu: str
    cpu_flags: frozenset[str]
    cores: int
    memory_gib: float
    gpus: tuple[str, ...] = ()
    cuda_capability: float | None = None

    @property
    def device(self) -> str:
        """``cuda`` or ``cpu``."""
        return "cuda" if self.gpus else "cpu"

    @property
    def native_dtype(self) -> str:
        """The 16-bit type the machine multiplies in hardware, or ``float32`` where it has none.

        A CPU without AVX-512 emulates bfloat16 products at about a seventh of float32's speed; the
        engine refuses bfloat16 on GPUs below compute capability 8.0.
        """
        if self.device == "cuda":
            return "bfloat16" if (self.cuda_capability or 0.0) >= 8.0 else "float16"
        return "bfloat16" if "avx512f" in self.cpu_flags else "float32"

    def record(self) -> dict[str, Any]:
        """For provenance; only the CPU flags that decide kernels are kept."""
        telling = {"avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16"}
        flags = sorted(self.cpu_flags & telling)
        return {**asdict(self), "cpu_flags": flags, "gpus": list(self.gpus)}


@cache
def detect() -> Hardware:
    """Read the machine once a process."""
    names, capability = _gpus()
    return Hardware(
        cpu=_cpu_name(),
        cpu_flags=_cpu_flags(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        gpus=names,
        cuda_capability=capability,
    )


def _cpu_name() -> str:
    found = re.search(r"model name\s*:\s*(.+)", _cpuinfo())
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def _cpu_flags() -> frozenset[str]:
    found = re.search(r"^flags\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    return frozenset(found.group(1).split()) if found else frozenset()


def _cpuinfo() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _gpus() -> tuple[tuple[str, ...], float | None]:
    if shutil.which("nvidia-smi") is None:
        return (), None
    query = ["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    # A device that the driver cannot read has `[N/A]` for its capability, and runs nothing.
    rows = re.findall(r"^(.+),\s*(\d+\.\d+)$", answer.stdout, re.MULTILINE)
    if answer.returncode != 0 or not rows:
        return (), None
    return tuple(name for name, _ in rows), min(float(capability) for _, capability in rows)
