"""What this machine is: CPU features, memory, GPUs."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import psutil

from qpipe.errors import EnvError

__all__ = ["Gpu", "Hardware", "detect", "identity", "visible_gpus"]

SELECTION = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU as the driver's tool tells of it."""

    index: str
    uuid: str
    name: str
    capability: float | None
    """``None`` where the driver cannot read the device, which then runs nothing."""
    used_mib: int | None
    """Device memory in use, by all processes."""
    total_mib: int | None = None
    """Device memory there is."""


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


def identity(record: Mapping[str, Any]) -> dict[str, Any]:
    """What of a stored record decides kernels and speed.

    Memory does not: an update of the operating system moves it by megabytes.
    """
    return {key: value for key, value in record.items() if key != "memory_gib"}


@cache
def detect() -> Hardware:
    """Read the machine once a process.

    Raises:
        EnvError: there are GPUs that cannot be read.
    """
    gpus = visible_gpus()
    capabilities = [gpu.capability for gpu in gpus if gpu.capability is not None]
    if gpus and not capabilities:
        raise _unreadable(f"no compute capability of {gpus[0].name}")
    return Hardware(
        cpu=_cpu_name(),
        cpu_flags=_cpu_flags(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        gpus=tuple(gpu.name for gpu in gpus if gpu.capability is not None),
        cuda_capability=min(capabilities, default=None),
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


def visible_gpus() -> list[Gpu]:
    """The GPUs that CUDA programs see here: those ``CUDA_VISIBLE_DEVICES`` names, or all.

    Indices count as the driver's tool counts them, and so they do for children (see ``processes``).

    Raises:
        EnvError: the driver's tool fails, or the variable names a GPU that is not there.
    """
    wanted = os.environ.get(SELECTION)
    names = None if wanted is None else _names(wanted)
    if names == [] or shutil.which("nvidia-smi") is None:
        return []
    # The name comes last: it may have commas.
    fields = "index,uuid,compute_cap,memory.used,memory.total,name"
    query = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    said = f"{answer.stdout}{answer.stderr}".strip()
    if "No devices were found" in said:
        return []
    if answer.returncode != 0:
        raise _unreadable(said or f"exit code {answer.returncode}")
    found = [_gpu(row) for row in answer.stdout.splitlines() if row.count(",") >= 5]
    return found if names is None else [_named(name, found) for name in names]


def _names(selection: str) -> list[str]:
    """As CUDA reads it: the list ends at the first entry that names none (Slurm's is a word)."""
    names = [name.strip() for name in selection.split(",")]
    return list(takewhile(lambda name: name not in ("", "-1", "NoDevFiles"), names))


def _named(name: str, found: list[Gpu]) -> Gpu:
    """The GPU of one entry: an index, a UUID, or the UUID of a part (MIG) of it.

    The engine takes whole UUIDs only.
    """
    card = _cards_of_parts().get(name, name) if name.startswith("MIG-") else name
    matches = [gpu for gpu in found if card in (gpu.index, gpu.uuid)]
    if not matches:
        known = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in found) or "none"
        mend = f"name GPUs that are there: {known}"
        raise EnvError(f"{SELECTION} names '{name}', which is not one GPU of this machine", mend)
    return matches[0]


def _cards_of_parts() -> dict[str, str]:
    """UUID of a MIG device → UUID of its card."""
    listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    cards: dict[str, str] = {}
    card = ""
    for uuid in re.findall(r"UUID: ([^)\s]+)", listing.stdout):
        if uuid.startswith("MIG-"):
            cards[uuid] = card
        else:
            card = uuid
    return cards


def _gpu(row: str) -> Gpu:
    index, uuid, capability, used, total, name = (part.strip() for part in row.split(",", 5))
    return Gpu(
        index=index,
        uuid=uuid,
        name=name,
        # `[N/A]` where the driver cannot tell.
        capability=float(capability) if re.fullmatch(r"\d+\.\d+", capability) else None,
        used_mib=int(used) if used.isdigit() else None,
        total_mib=int(total) if total.isdigit() else None,
    )


def _unreadable(said: str) -> EnvError:
    return EnvError(
        f"nvidia-smi is there and cannot read the GPUs: {said}",
        mend=f"mend the driver; to run on the CPU on purpose, set {SELECTION}= (empty)",
    )
