"""What ``measure`` recorded of one variant, checked to be of one checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from qpipe.compare._exercised import exercises
from qpipe.compare._fields import fields_part
from qpipe.compare._ratios import fidelity_part, memory_part, speed_part
from qpipe.compare._steady import stability_part
from qpipe.config import Config
from qpipe.errors import InvalidMeasurement
from qpipe.records import read_json, read_table

__all__ = ["CONFIDENCE", "Measured", "short_hash"]

CONFIDENCE = 0.95

_ROUNDING = 1e-6


class Measured:
    """One variant's records, all of one checkpoint."""

    def __init__(self, config: Config, name: str) -> None:
        workspace, self.name = config.workspace, name
        self.command = f"qpipe measure {name}"
        self.folder: Path = workspace.evaluation(name)
        self.fidelity = read_json(workspace.fidelity(name), self.command)
        self.bench = read_json(workspace.bench(name), self.command)
        self.stability = read_json(workspace.stability(name), self.command)
        self.results = read_json(self.folder / "results.json", self.command)
        records = (self.results, self.fidelity, self.bench)
        self.not_measured: dict[str, dict[str, str]] = self.results.get("not_measured") or {}
        self.unsupported: str | None = next(
            (str(each["unsupported"]) for each in records if each.get("unsupported")), None
        )
        self.measured_on: dict[str, dict[str, Any]] = {
            "fidelity": self.fidelity.get("provenance") or {},
            "evaluation": self.results.get("context") or {},
            "bench": self.bench.get("provenance") or {},
            "stability": self.stability.get("provenance") or {},
        }
        self.provenance = self.measured_on["fidelity"]
        self.checkpoint = None
        if not self.unsupported:
            self.checkpoint = self._one_checkpoint()
            self._check_it_is_the_releases(config)

    def _one_checkpoint(self) -> str:
        """``measure --only`` and an interrupted run can leave records of two builds."""
        hashes = {part: on.get("checkpoint_hash") for part, on in self.measured_on.items()}
        hashes["evaluation"] = self.results.get("checkpoint_hash")
        first = hashes["fidelity"]
        for part in ("evaluation", "bench", "stability"):
            if first is None or hashes[part] != first:
                raise InvalidMeasurement(
                    f"the records of '{self.name}' are of different checkpoints:"
                    f" fidelity of {short_hash(first)}, {part} of {short_hash(hashes[part])}",
                    mend=f"run `{self.command}`",
                )
        return str(first)

    def _check_it_is_the_releases(self, config: Config) -> None:
        """Stages run by hand can leave records of a scheme or a build that is no more."""
        scheme = config.scheme_of(self.name)
        if scheme is not None and self.provenance.get("scheme_hash") != scheme.hash():
            raise InvalidMeasurement(
                f"'{self.name}' was measured with another scheme than the release's",
                mend=f"run `qpipe quantize {self.name}`, then `{self.command}`",
            )
        path = config.workspace.checkpoint(self.name) / "manifest.json"
        if path.exists() and read_json(path, "-")["checkpoint_hash"] != self.checkpoint:
            raise InvalidMeasurement(
                f"'{self.name}' was built again after it was measured", mend=f"run `{self.command}`"
            )

    def samples(self) -> pd.DataFrame:
        """One row a question.

        Raises:
            MissingInput: there are none.
            InvalidMeasurement: they are not those that ``results.json`` sums up.
        """
        rows = read_table(self.folder / "samples.parquet", self.command)
        found = rows.groupby("task")["score"].agg(["size", "mean"])
        for task, known in self.results["tasks"].items():
            n, mean = found.loc[task] if task in found.index else (0, 0.0)
            if n != known["n"] or abs(mean - known["score"]) > _ROUNDING:
                raise InvalidMeasurement(
                    f"the rows of '{task}' in {self.folder} are not those of its results.json",
                    mend=f"run `{self.command}`",
                )
        return rows

    def identity(self) -> dict[str, Any]:
        return {"variant": self.name, "provenance": self.provenance}

    def absolute(self, base: Measured) -> dict[str, Any]:
        return {
            "fidelity": fidelity_part(self.fidelity),
            "speed": speed_part(self.bench, base.bench),
            "memory": memory_part(self.bench, base.bench),
            "fields": fields_part(self.results, base.results),
            "stability": stability_part(self.stability, base.stability, CONFIDENCE),
            "exercises": exercises(self.results, self.fidelity, self.stability),
        }


def short_hash(checkpoint: str | None) -> str:
    return checkpoint[:10] if checkpoint else "no known hash"
