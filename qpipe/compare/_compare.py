"""Reads what ``measure`` wrote, writes ``deltas.json`` and ``deltas.csv``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from qpipe.compare._pairs import Pairing, categories, cut_by_length, overall, pair
from qpipe.compare._ratios import fidelity_part, memory_part, speed_part
from qpipe.config import Config
from qpipe.errors import InvalidMeasurement, MissingInput
from qpipe.records import read_json, write_json, write_text

__all__ = ["compare"]

BASELINE = "bf16"
CONFIDENCE = 0.95

_SAME = ("hardware", "engine", "engine_version")


def compare(config: Config) -> dict[str, Any]:
    """Compare every variant with the baseline; writes ``deltas.json`` and ``deltas.csv``.

    Raises:
        MissingInput: a variant was not measured.
        InvalidMeasurement: the baseline has no figures, or no question can be paired.
    """
    base = _Measured(config, BASELINE)
    if base.unsupported:
        raise InvalidMeasurement(
            f"the baseline was not measured: {base.unsupported}",
            mend="serve the baseline with settings this machine supports",
        )
    baseline_rows = base.samples()
    record = {
        "release": config.release.name,
        "baseline": {**base.identity(), **_baseline_part(baseline_rows), **base.absolute(base)},
        "confidence": CONFIDENCE,
        "variants": {
            name: _variant_part(_Measured(config, name), base, baseline_rows)
            for name in config.release.names
            if name != BASELINE
        },
    }
    # The report depends on this folder, and DVC refuses one that no variant's ranking has made.
    (config.workspace.out / "sensitivity").mkdir(parents=True, exist_ok=True)
    write_json(config.workspace.deltas, record)
    write_text(config.workspace.deltas.with_suffix(".csv"), _csv(record))
    return record


class _Measured:
    """One variant's records."""

    def __init__(self, config: Config, name: str) -> None:
        workspace, self.name = config.workspace, name
        self.command = f"qpipe measure {name}"
        self.folder: Path = workspace.evaluation(name)
        self.fidelity = read_json(workspace.fidelity(name), self.command)
        self.bench = read_json(workspace.bench(name), self.command)
        self.results = read_json(self.folder / "results.json", self.command)
        records = (self.results, self.fidelity, self.bench)
        self.unsupported: str | None = next(
            (str(each["unsupported"]) for each in records if each.get("unsupported")), None
        )
        self.provenance: dict[str, Any] = self.fidelity.get("provenance") or {}

    def samples(self) -> pd.DataFrame:
        path = self.folder / "samples.parquet"
        if not path.exists():
            raise MissingInput(path, self.command)
        return pd.read_parquet(path)

    def identity(self) -> dict[str, Any]:
        return {"variant": self.name, "provenance": self.provenance}

    def absolute(self, base: _Measured) -> dict[str, Any]:
        return {
            "fidelity": fidelity_part(self.fidelity),
            "speed": speed_part(self.bench, base.bench),
            "memory": memory_part(self.bench, base.bench),
        }


def _variant_part(own: _Measured, base: _Measured, baseline_rows: pd.DataFrame) -> dict[str, Any]:
    if own.unsupported:
        return {**own.identity(), "unsupported": own.unsupported}
    pairing = pair(baseline_rows, own.samples(), own.name)
    return {
        **own.identity(),
        "notes": _notes(own, base, pairing),
        "paired": len(pairing.rows),
        "unpaired_baseline": pairing.unpaired_baseline,
        "unpaired_variant": pairing.unpaired_variant,
        "categories_missing": pairing.missing,
        "overall": overall(pairing.rows, CONFIDENCE),
        "categories": categories(pairing.rows, CONFIDENCE),
        **own.absolute(base),
    }


def _notes(own: _Measured, base: _Measured, pairing: Pairing) -> list[str]:
    notes = [
        f"{key.replace('_', ' ')} differs from the baseline's: "
        f"{own.provenance.get(key)}, not {base.provenance.get(key)}"
        for key in _SAME
        if own.provenance.get(key) != base.provenance.get(key)
    ]
    if own.fidelity.get("data_hash") != base.fidelity.get("data_hash"):
        notes.append("the fidelity texts differ from the baseline's")
    unpaired = pairing.unpaired_baseline + pairing.unpaired_variant
    if unpaired:
        notes.append(
            f"{pairing.unpaired_baseline} questions of the baseline and"
            f" {pairing.unpaired_variant} of the variant have no partner and are left out"
        )
    return notes


def _baseline_part(rows: pd.DataFrame) -> dict[str, Any]:
    cut = cut_by_length(rows)
    grouped = rows.assign(cut=cut).groupby("category", sort=True)
    return {
        "overall": {"n": len(rows), "score": float(rows["score"].mean())},
        "categories": {
            str(category): {
                "n": len(group),
                "score": float(group["score"].mean()),
                "truncated_share": float(group["cut"].mean()),
            }
            for category, group in grouped
        },
    }


def _csv(record: dict[str, Any]) -> str:
    """One row a variant and category."""
    rows = [
        {
            "variant": name,
            "mode": entry["provenance"].get("mode"),
            "category": category,
            **figures,
            "kl_mean": entry["fidelity"]["categories"].get(category, {}).get("kl_mean"),
        }
        for name, entry in record["variants"].items()
        for category, figures in entry.get("categories", {}).items()
    ]
    return str(pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))
