"""``qpipe quantize V``: builds one variant's checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qpipe.config import Config, Scheme
from qpipe.envs import run_worker
from qpipe.errors import ConfigError, Fault
from qpipe.model import Linear, describe, linears, require_companions
from qpipe.quantize._ready import bring_checkpoint, check_checkpoint
from qpipe.records import read_json, staged_dir, write_json
from qpipe.schemes import preflight, quantized_modules, unit_modules

__all__ = ["made_schemes", "make_variant"]

UNMADE: dict[str, Any] = {"restored": [], "calibration_hash": None}
"""What the manifest of a ready-made checkpoint has in place of what making one leaves."""


def made_schemes(config: Config) -> dict[str, Scheme]:
    """The schemes by which checkpoints are made; ready-made ones only follow theirs."""
    return {name: each for name, each in config.schemes.items() if config.release.made_by(name)}


def make_variant(config: Config, variant: str, progress: Callable[[str], None]) -> dict[str, Any]:
    """Write ``out/models/<variant>`` with its manifest, and return the manifest.

    A fallback is built by the source's own recipe with a longer ignore list: AWQ and SmoothQuant
    move scale into the norms, so base weights cannot be spliced into their checkpoints.

    Raises:
        ConfigError: no such variant, or the scheme does not fit the model.
        InvalidMeasurement: its tokenizer, template or generation config is not the model's.
        MissingInput: the model, the calibration set or the sensitivity record is not there.
        WorkerError: quantization died.
    """
    release, workspace = config.release, config.workspace
    source = release.source_of(variant)
    if source is None:
        message = f"'{variant}' is not quantized"
        known = ", ".join(name for name in release.names if name != "bf16")
        raise ConfigError([Fault("configs/release.yaml", "variants", message, f"one of: {known}")])
    model_manifest = read_json(workspace.model / "manifest.json", "qpipe model")
    modules = linears(workspace.model)
    # All of them before the first: a night must not end at the fifth variant's typing error.
    preflight(made_schemes(config), modules, release.devices)
    scheme = config.schemes[source.scheme]
    about = {
        "variant": variant,
        "scheme": source.scheme,
        "scheme_hash": scheme.hash(),
        "base_checkpoint_hash": model_manifest["checkpoint_hash"],
    }
    if source.checkpoint is not None:
        with staged_dir(workspace.checkpoint(variant)) as staged:
            brought = bring_checkpoint(config, variant, source, scheme, staged, progress)
            manifest = {**about, **brought, **UNMADE, **describe(staged)}
            _check_companions(config, variant, staged)
            write_json(staged / "manifest.json", manifest)
        return manifest
    restored = _restored(config, variant, modules)
    scheme = scheme.model_copy(update={"ignore": [*scheme.ignore, *restored]})
    rows, calibration_hash = _calibration(config, scheme)
    request: dict[str, Any] = {
        "model": str(workspace.model),
        "scheme": scheme.saved().model_dump(),
        "modules": [module.name for module in quantized_modules(scheme, modules)],
        "calibration": None if rows is None else str(rows),
        "samples": scheme.calibration_samples,
        "seed": release.calibration.seed,
        "trust_remote_code": release.model.trust_remote_code,
    }
    with staged_dir(workspace.checkpoint(variant)) as staged:
        request["output"] = str(staged)
        if not scheme.steps:
            done = _take_model(workspace.model, staged)
        elif scheme.backend == "autoawq":
            left = [each.name for each in modules if each.name not in request["modules"]]
            request["unquantized"] = left or None
            done = run_worker("autoawq", "autoawq", request, workspace, variant, progress)
            done |= check_checkpoint(
                config, variant, scheme, staged, progress, may_be_trained=False
            )
            request["modules"] = done.pop("modules")
        else:
            done = run_worker("quantize", "quantize", request, workspace, variant, progress)
        manifest = {
            **about,
            "scheme_spec": scheme.model_dump(),
            "restored": restored,
            "modules": request["modules"],
            "calibration_hash": calibration_hash,
            "quantize": done,
            **describe(staged),
        }
        _check_companions(config, variant, staged)
        write_json(staged / "manifest.json", manifest)
    return manifest


def _check_companions(config: Config, variant: str, folder: Path) -> None:
    trust = config.release.model.trust_remote_code
    require_companions(folder, config.workspace.model, f"qpipe quantize {variant}", trust)


def _take_model(model: Path, folder: Path) -> dict[str, Any]:
    """The model's own files, for what the engine quantizes alone."""
    for path in model.iterdir():
        if path.name != "manifest.json":
            shutil.copy2(path, folder / path.name)
    return {"seconds": 0.0}


def _restored(config: Config, variant: str, modules: list[Linear]) -> list[str]:
    """Modules a fallback puts back to 16 bits: the worst units of its source."""
    fallback = config.release.fallback.get(variant)
    if fallback is None:
        return []
    record = read_json(
        config.workspace.sensitivity(fallback.source), f"qpipe sensitivity {fallback.source}"
    )
    worst = [row["unit"] for row in record["units"][: fallback.restore_units]]
    return unit_modules([module.name for module in modules], worst)


def _calibration(config: Config, scheme: Scheme) -> tuple[Path | None, str | None]:
    if not scheme.calibrated:
        return None, None
    folder = config.workspace.calibration(Path(config.release.calibration.mix).stem)
    report = read_json(folder / "report.json", "qpipe calibrate")
    return folder / "calib.jsonl", report["hash"]
