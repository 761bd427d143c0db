"""What quantizing and serving a variant will take here, before any of it starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qpipe.config import Config
from qpipe.forecast._memory import engine_bytes, quantizing_memory
from qpipe.forecast._time import seconds_to_quantize, throughput
from qpipe.hardware import Hardware, visible_gpus
from qpipe.room import GIB, Need, disk_free, memory_free, memory_total, require_room
from qpipe.schemes import WIDE_BYTES, Mode, Work, checkpoint_bytes, variant_mode
from qpipe.serving import serve_settings

__all__ = ["Forecast", "forecast"]

GPU_MEMORY_UTILIZATION = 0.92
"""vLLM 0.32's own, where the release sets none."""


@dataclass(frozen=True)
class Forecast:
    """Sizes, room and time."""

    work: Work
    mode: Mode
    checkpoint_bytes: int
    twin_bytes: int
    """Of the dequantized weights that are served in place of the variant; 0 where it is native."""
    disk: Need
    weights: Need
    """Memory without which quantizing, or checking a ready-made checkpoint, surely fails."""
    memory: list[Need]
    """As estimated: for quantizing, then for serving."""
    seconds: float

    @property
    def duration(self) -> str:
        """The time for people."""
        if self.seconds < 90:
            return f"about {self.seconds:.0f} s"
        if self.seconds < 5400:
            return f"about {self.seconds / 60:.0f} min"
        return f"about {self.seconds / 3600:.1f} h"

    def require(self) -> None:
        """Check that all fits, estimates too.

        Raises:
            EnvError: disk or memory is short.
        """
        require_room([self.disk, self.weights, *self.memory])

    def require_to_start(self, progress: Callable[[str], None]) -> None:
        """Check that quantizing can succeed, and warn where an estimate says otherwise.

        Raises:
            EnvError: disk is short, or memory for the weights alone.
        """
        require_room([self.disk, self.weights])
        for need in self.memory:
            if not need.fits:
                progress(f"warning: {need} by a rough estimate; {need.mend}")
        progress(f"{self.duration}, a rough size")

    def record(self) -> dict[str, Any]:
        """For programs."""
        work = self.work
        return {
            "variant": work.variant,
            "scheme": work.scheme_name,
            "title": work.scheme.title,
            **self.mode.record(),
            "quantized": work.quantized,
            "restored": work.restored,
            "ignored": work.ignored,
            "calibration": {"rows": work.rows, "tokens": work.tokens},
            "checkpoint_bytes": self.checkpoint_bytes,
            "twin_bytes": self.twin_bytes,
            "needs": [
                {
                    "what": need.what,
                    "needed_gib": round(need.needed / GIB, 3),
                    "there_gib": round(need.there / GIB, 3),
                    "fits": need.fits,
                }
                for need in (self.disk, self.weights, *self.memory)
            ],
            "seconds": round(self.seconds),
        }


def forecast(config: Config, work: Work, hardware: Hardware) -> Forecast:
    """Examine ``work`` on this machine; nothing is started and nothing written."""
    workspace = config.workspace
    mode = variant_mode(config, work.variant, hardware)
    shapes = work.architecture
    saved = checkpoint_bytes(shapes, work.scheme)
    # What the engine alone quantizes is served from the model's own weights.
    twinned = mode.mode == "simulated" and (work.scheme.steps or work.ready_made)
    twin = shapes.values * WIDE_BYTES if twinned else 0
    beside = sum(
        path.stat().st_size
        for path in workspace.model.iterdir()
        if path.is_file() and path.suffix != ".safetensors"
    )
    download = _to_download(work.ready_made, saved + beside, workspace.root)
    room = "free disk space, or put out/ and .qpipe/ on a larger disk"
    if download:
        room += ", or the hub's cache on another (`HF_HOME`)"
    takes = quantizing_memory(shapes, work.scheme, work.rows, work.tokens, hardware)
    mend = "end other programs, or take a machine with more memory"
    if work.rows:
        mend += " or fewer rows (`calibration_samples`)"
    what = "memory to check the checkpoint" if work.ready_made else "memory to quantize"
    memory = [Need(what, takes.host, memory_free(), mend)]
    gpu = _gpu_bytes()
    if gpu is not None and takes.gpu:
        memory.append(Need("GPU memory to quantize", takes.gpu, gpu, mend))
    memory += _serving(config, work, mode, twin or saved, hardware, gpu)
    return Forecast(
        work=work,
        mode=mode,
        checkpoint_bytes=saved,
        twin_bytes=twin,
        disk=Need(
            "disk for the checkpoint and its dequantized twin"
            if twin
            else "disk for the checkpoint",
            saved + twin + beside + download,
            disk_free(workspace.root),
            room,
        ),
        weights=Need(
            "memory and swap for the weights alone",
            takes.weights if work.scheme.steps or work.ready_made else 0,
            memory_total(),
            "take a machine with more memory",
        ),
        memory=memory,
        seconds=seconds_to_quantize(
            shapes, work.scheme, work.rows, work.tokens, throughput(hardware), hardware.device
        ),
    )


def _to_download(source: str | None, size: int, root: Path) -> int:
    """Bytes still to come of a ready-made checkpoint, where the hub's cache shares the disk.

    It is fetched to the cache, and copied from there.
    """
    kind, _, rest = (source or "").partition(":")
    if kind != "hub":
        return 0
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    cache = Path(HF_HUB_CACHE)
    exists = next(folder for folder in (cache, *cache.parents) if folder.exists())
    if exists.stat().st_dev != root.stat().st_dev:
        return 0
    blobs = cache / repo_folder_name(repo_id=rest.partition("@")[0], repo_type="model") / "blobs"
    there: int = sum(path.stat().st_size for path in blobs.glob("*"))
    return max(0, size - there)


def _serving(
    config: Config, work: Work, mode: Mode, weights: int, hardware: Hardware, gpu: int | None
) -> Iterator[Need]:
    """Memory for weights and KV cache, at least for one sequence of full length."""
    if mode.mode == "unsupported":
        return
    serve = serve_settings(config, work.variant, hardware)
    devices = serve.tensor_parallel_size or 1
    wide = 32 if str(serve.dtype) == "float32" else 16  # the machine's own may be
    if mode.mode == "simulated":
        weights = weights * wide // 16
    flag = serve.kv_cache_dtype if serve.kv_cache_dtype not in (None, "auto") else None
    runs = flag or (mode.arithmetic.kv if mode.mode == "native" else f"fp{wide}")
    token = work.architecture.kv_bytes(_bits(runs), devices) or 0
    sequence = token * (serve.max_model_len or 0)
    if hardware.device == "cpu":
        cache = (serve.kv_cache_gib or 0) * GIB
        mend = "lower `serve.kv_cache_gib`, end other programs, or take a machine with more memory"
        yield Need("memory to serve", engine_bytes(weights, cache), memory_free(), mend)
        mend = "raise `serve.kv_cache_gib`, or lower `serve.max_model_len`"
        yield Need("KV cache for one sequence of full length", sequence, cache, mend)
    elif gpu is not None:
        share = serve.gpu_memory_utilization or GPU_MEMORY_UTILIZATION
        mend = "raise `serve.tensor_parallel_size`, or lower `serve.max_model_len`"
        need = engine_bytes(weights / devices, sequence)
        yield Need(f"memory of each of {devices} GPUs to serve", need, gpu * share, mend)


def _bits(kind: str) -> int:
    """Of a number format: ``bf16``, ``fp8_e4m3``, ``int4`` …; 16 where the name does not say."""
    found = re.search(r"[a-z](\d+)", kind)
    return int(found.group(1)) if found else 16


def _gpu_bytes() -> int | None:
    """Memory of the smallest GPU; ``None`` without one, or where the driver does not tell."""
    known = [gpu.total_mib for gpu in visible_gpus() if gpu.total_mib is not None]
    return min(known) * 2**20 if known else None
