"""A checkpoint's dequantized twin, kept by content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from qpipe.config import Config
from qpipe.envs import described, run_worker, worker_hash
from qpipe.model import architecture
from qpipe.records import digest, read_json, staged_dir
from qpipe.room import Need, disk_free, require_room
from qpipe.schemes import WIDE_BYTES, units_of

__all__ = ["simulated_checkpoint"]


def _fused(weights: dict[str, Any] | None, modules: list[str]) -> list[list[str]]:
    """Modules by the matrix that the engine fuses them into, where it gives that one scale anew."""
    if weights is None or (weights["type"], weights["strategy"]) != ("float", "tensor"):
        return []
    return [members for members in units_of(modules).values() if len(members) > 1]


def simulated_checkpoint(config: Config, variant: str, progress: Callable[[str], None]) -> Path:
    """The folder of ``variant``'s weights dequantized to BF16, made on first use.

    Raises:
        EnvError: disk is short.
    """
    workspace = config.workspace
    checkpoint = workspace.checkpoint(variant)
    manifest = read_json(checkpoint / "manifest.json", f"qpipe quantize {variant}")
    scheme = manifest["scheme_spec"]
    if not manifest["modules"] and scheme["kv_cache_dtype"]:
        return checkpoint  # unquantized: the engine's own cache is all there is to imitate
    rounding = {
        "activations": scheme["activations"],
        "modules": manifest["modules"],
        "fused": _fused(scheme["weights"], manifest["modules"]),
    }
    made_of = [manifest["checkpoint_hash"], manifest.get("base_checkpoint_hash"), rounding]
    made_by = [worker_hash("simulate"), described("quantize", workspace).hash]
    key = digest(made_of, made_by)
    target: Path = workspace.cache / "simulated" / key[:16]
    if not target.exists():
        takes = architecture(workspace.model).values * WIDE_BYTES
        mend = f"free disk space; {workspace.cache / 'simulated'} may go, it is made again"
        there = disk_free(workspace.root)
        require_room([Need("disk for the dequantized weights", takes, there, mend)])
        request = {"checkpoint": str(checkpoint), "model": str(workspace.model), **rounding}
        with staged_dir(target) as staged:
            run_worker(
                "quantize",
                "simulate",
                {**request, "output": str(staged)},
                workspace,
                variant,
                progress,
            )
    return target
