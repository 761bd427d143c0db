"""``qpipe quantize V``: builds one variant's checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qpipe.config import Config, Scheme
from qpipe.envs import run_worker
from qpipe.errors import ConfigError, WorkerError
from qpipe.forecast import forecast
from qpipe.hardware import detect
from qpipe.model import describe, require_companions
from qpipe.quantize._ready import bring_checkpoint, check_checkpoint, ready_faults
from qpipe.records import read_json, staged_dir, write_json
from qpipe.schemes import Work, declared_in, packed, unlike, work_of

__all__ = ["TOOLS", "make_variant"]

TOOLS = {"llm-compressor": "quantize", "autoawq": "autoawq"}
"""A scheme's backend → what its environment and its worker are called."""


def make_variant(config: Config, variant: str, progress: Callable[[str], None]) -> dict[str, Any]:
    """Write ``out/models/<variant>`` with its manifest, and return the manifest.

    A fallback is built by the source's own recipe with a longer ignore list: AWQ and SmoothQuant
    move scale into the norms, so base weights cannot be spliced into their checkpoints.

    Raises:
        ConfigError: no such variant, a scheme that does not fit the model, or a faulty ready-made
            checkpoint by path, be it another variant's.
        InvalidMeasurement: its tokenizer, template or generation config is not the model's.
        MissingInput: the model, the calibration set or the sensitivity record is not there.
        EnvError: disk, or memory for the weights, is short.
        WorkerError: quantization died, or made something else than the scheme asks for.
    """
    release, workspace = config.release, config.workspace
    work = work_of(config, variant)
    # Of all variants, like the schemes: a night must not end at the fifth one's damaged file.
    faults = list(ready_faults(config))
    if faults:
        raise ConfigError(faults)
    found = forecast(config, work, detect())
    found.require_to_start(progress)
    with staged_dir(workspace.checkpoint(variant)) as staged:
        if work.ready_made is not None:
            made = bring_checkpoint(config, work, staged, progress)
        elif work.scheme.steps:
            made = _quantize(config, work, found.checkpoint_bytes, staged, progress)
        else:
            made = _take_model(workspace.model, staged)
        trust = release.model.trust_remote_code
        require_companions(staged, workspace.model, f"qpipe quantize {variant}", trust)
        manifest: dict[str, Any] = {
            "variant": variant,
            "scheme": work.scheme_name,
            "scheme_hash": config.schemes[work.scheme_name].hash(),
            "base_checkpoint_hash": work.base_hash,
            "scheme_spec": work.scheme.model_dump(),
            "restored": work.restored,
            "modules": work.quantized,
            "calibration_hash": None,
            **made,
            **describe(staged),
        }
        write_json(staged / "manifest.json", manifest)
    return manifest


def _quantize(
    config: Config,
    work: Work,
    expected_bytes: int,
    staged: Path,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Run the scheme's steps; returns entries of the manifest."""
    release, workspace, scheme = config.release, config.workspace, work.scheme
    rows, calibration_hash = _calibration(config, scheme)
    if calibration_hash is not None:
        _repeat_warnings(config, calibration_hash, progress)
    request: dict[str, Any] = {
        "model": str(workspace.model),
        "output": str(staged),
        "scheme": scheme.saved().model_dump(),
        "modules": work.quantized,
        "packed": packed(scheme),
        "expected_bytes": expected_bytes,
        "calibration": None if rows is None else str(rows),
        "samples": scheme.calibration_samples,
        "seed": release.calibration.seed,
        "trust_remote_code": release.model.trust_remote_code,
    }
    tool = TOOLS[scheme.backend]
    done = run_worker(tool, tool, request, workspace, work.variant, progress)
    if scheme.backend == "autoawq":
        done |= check_checkpoint(
            config, work.variant, scheme, staged, progress, expected_bytes=expected_bytes
        )
        _require_modules(done.pop("modules"), work.quantized)
    else:
        _require_as_asked(staged, scheme)
    return {"calibration_hash": calibration_hash, "quantize": done}


def _require_modules(found: list[str], asked: list[str]) -> None:
    if sorted(found) != sorted(asked):
        odd = sorted({*found} ^ {*asked})[0]
        message = f"AutoAWQ did not do what was asked of {odd}"
        raise WorkerError(message, mend="it quantizes every linear module of every block")


def _require_as_asked(folder: Path, scheme: Scheme) -> None:
    """Check what the checkpoint says of itself: tools have defaults of their own.

    Raises:
        WorkerError: it is not what the scheme asks for.
    """
    found = declared_in(folder)
    problem = unlike(found, scheme)
    if problem is not None:
        message = f"the checkpoint is another than was asked for: {problem}"
        raise WorkerError(message, mend="say in the scheme's file what the tool makes of it")


def _take_model(model: Path, folder: Path) -> dict[str, Any]:
    """The model's own files, for what the engine quantizes alone; returns manifest entries."""
    for path in model.iterdir():
        if path.name != "manifest.json":
            shutil.copy2(path, folder / path.name)
    return {"quantize": {"seconds": 0.0}}


def _calibration(config: Config, scheme: Scheme) -> tuple[Path | None, str | None]:
    if not scheme.calibrated:
        return None, None
    folder = config.workspace.calibration(Path(config.release.calibration.mix).stem)
    report = read_json(folder / "report.json", "qpipe calibrate")
    return folder / "calib.jsonl", report["hash"]


def _repeat_warnings(
    config: Config, calibration_hash: str, progress: Callable[[str], None]
) -> None:
    """Say again what the check of this calibration set warned of, if it ran: it need not have."""
    path = config.workspace.calibration_check
    if not path.exists():
        return
    record = read_json(path, "qpipe calibrate --check")
    if record["calibration_hash"] == calibration_hash:
        for warning in record["warnings"]:
            reasons = "; ".join(warning["reasons"])
            progress(f"warning: calibration: {warning['group'] or record['mix']}: {reasons}")
