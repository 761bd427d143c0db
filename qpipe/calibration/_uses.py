"""Which variants the calibration set decides."""

from __future__ import annotations

from typing import Any

from qpipe.config import Config, Variant
from qpipe.records import SCHEMA_VERSION, staged_dir, write_json

__all__ = ["note_uses"]


def note_uses(config: Config, calibration_hash: str) -> None:
    """Write ``out/calib_uses/<variant>.json``: the set's hash and seed, null where none is read.

    The stages that make checkpoints depend on these records, not on the set: another mix must not
    make FP8 of dynamic scales again, and with it all that is measured of it.
    """
    with staged_dir(config.workspace.calibration_uses) as staged:
        for name, variant in config.release.variants.items():
            record: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "hash": None, "seed": None}
            if _reads(config, variant):
                record |= {"hash": calibration_hash, "seed": config.release.calibration.seed}
            write_json(staged / f"{name}.json", record)


def _reads(config: Config, variant: Variant) -> bool:
    return variant.checkpoint is None and config.schemes[variant.scheme].calibrated
