"""``qpipe sensitivity V``: ranks the units of a quantized variant by the KL each costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from qpipe.config import Config, Sensitivity
from qpipe.envs import described, run_worker, worker_hash
from qpipe.errors import ConfigError, Fault
from qpipe.hardware import detect
from qpipe.model import linears
from qpipe.records import digest, read_json, write_json
from qpipe.schemes import units_of

__all__ = ["rank_units", "source_faults"]


def source_faults(config: Config, source: str) -> list[Fault]:
    """Why no unit of ``source`` can be put back to 16 bits, if so."""
    scheme = config.scheme_of(source)
    if scheme is None or scheme.weights is not None:
        return []
    message = f"'{source}' leaves weights at 16 bits, so no unit can be put back"
    mend = "take a variant with quantized weights"
    return [Fault("configs/release.yaml", f"sensitivity.{source}", message, mend)]


def rank_units(config: Config, source: str, progress: Callable[[str], None]) -> dict[str, Any]:
    """Write ``out/fidelity/units/<source>.json``: units, the costliest first.

    Raises:
        ConfigError: ``source`` is no quantized variant.
        MissingInput: its checkpoint or the calibration set is not there.
    """
    release, workspace = config.release, config.workspace
    if source not in release.variants:
        message, known = f"'{source}' is no variant", ", ".join(release.variants)
        raise ConfigError([Fault("configs/release.yaml", "variants", message, f"one of: {known}")])
    if faults := source_faults(config, source):
        raise ConfigError(faults)
    settings = release.sensitivity.get(source, Sensitivity())
    checkpoint = workspace.checkpoint(source)
    manifest = read_json(checkpoint / "manifest.json", f"qpipe quantize {source}")
    folder = workspace.calibration(Path(release.calibration.mix).stem)
    calibration = read_json(folder / "report.json", "qpipe calibrate")
    units = units_of(module.name for module in linears(workspace.model))
    key = digest(
        manifest["checkpoint_hash"],
        calibration["hash"],
        settings.model_dump(),
        worker_hash("sensitivity"),
        described("quantize", workspace).hash,
    )
    request = {
        "model": str(workspace.model),
        "checkpoint": str(checkpoint),
        "calibration": str(folder / "calib.jsonl"),
        "samples": settings.samples,
        "tokens": settings.tokens,
        "units": units,
        "store": str(workspace.cache / "sensitivity" / f"{key[:16]}.json"),
        "trust_remote_code": release.model.trust_remote_code,
    }
    found = run_worker("quantize", "sensitivity", request, workspace, source, progress)
    ranked = sorted(found["units"], key=lambda row: (-row["kl"], row["unit"]))
    record = {
        "source": source,
        "checkpoint_hash": manifest["checkpoint_hash"],
        # All of the source's scheme, also what leaves no trace in its weights: the fallback's
        # stages depend on this record in place of the scheme's file.
        "scheme_hash": digest(manifest["scheme_spec"]),
        "calibration_hash": calibration["hash"],
        "method": "KL(16-bit ‖ one unit quantized), full vocabulary, nats a token",
        "settings": settings.model_dump(),
        "tokens": found["tokens"],
        "control_kl": found["control_kl"],
        "seconds": found["seconds"],
        "versions": found["versions"],
        "hardware": detect().record(),
        "units": ranked,
    }
    write_json(workspace.sensitivity(source), record)
    return record
