"""Gathers the records of a release into what the pages show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qpipe.config import BASELINE, Config
from qpipe.records import read_json, require

__all__ = ["Row", "View", "gather"]


@dataclass(frozen=True)
class Row:
    """One variant. Figures are ``None`` where it was not measured."""

    name: str
    title: str
    mode: str
    """``native``, ``simulated`` or ``unsupported``."""
    verdict: str
    reasons: list[str]
    notes: list[str]
    next: str | None
    entry: dict[str, Any]
    """The variant's part of ``deltas.json``."""

    @property
    def label(self) -> str:
        """The verdict; the baseline is judged by none."""
        return "baseline" if self.is_baseline else self.verdict

    @property
    def is_baseline(self) -> bool:
        """Whether the others are compared with this one."""
        return self.name == BASELINE

    @property
    def provenance(self) -> dict[str, Any]:
        """What the figures were measured on."""
        found: dict[str, Any] = self.entry.get("provenance") or {}
        return found

    @property
    def fidelity(self) -> dict[str, Any]:
        """KL, top-1 agreement and perplexity."""
        found: dict[str, Any] = self.entry.get("fidelity") or {}
        return found

    @property
    def memory(self) -> dict[str, Any]:
        """Weights and KV capacity with their ratios."""
        found: dict[str, Any] = self.entry.get("memory") or {}
        return found

    @property
    def overall(self) -> dict[str, Any]:
        """All questions together."""
        found: dict[str, Any] = self.entry.get("overall") or {}
        return found

    @property
    def categories(self) -> dict[str, dict[str, Any]]:
        """Scores by category."""
        found: dict[str, dict[str, Any]] = self.entry.get("categories") or {}
        return found

    @property
    def stability(self) -> dict[str, Any]:
        """Sampled answers: spread of the score and degenerate output, against the baseline's."""
        found: dict[str, Any] = self.entry.get("stability") or {}
        return found

    @property
    def retrieval(self) -> dict[str, dict[int, dict[str, Any]]]:
        """Planted facts by the text's length and the fact's depth in percent."""
        found: dict[str, dict[int, dict[str, Any]]] = {}
        for each in self.entry.get("retrieval") or []:
            found.setdefault(each["length"], {})[each["depth"]] = each
        return found

    @property
    def lengths(self) -> dict[str, dict[str, Any]]:
        """Questions on long texts by length, against the baseline's."""
        found: dict[str, dict[str, Any]] = self.entry.get("lengths") or {}
        return found

    @property
    def fields(self) -> list[dict[str, Any]]:
        """Extracted fields, the greatest loss of F1 first."""
        found: list[dict[str, Any]] = self.entry.get("fields") or []
        return found

    @property
    def exercises(self) -> dict[str, dict[str, int]]:
        """What the engine did for each category and other part, as it counted it."""
        found: dict[str, dict[str, int]] = self.entry.get("exercises") or {}
        return found

    @property
    def kv(self) -> dict[str, Any]:
        """The quantized KV cache and what reads it; empty where it is not quantized."""
        found: dict[str, Any] = self.entry.get("kv") or {}
        return found

    @property
    def levels(self) -> list[dict[str, Any]]:
        """Speed by concurrency, rising."""
        return sorted(self.entry.get("speed") or [], key=lambda level: int(level["concurrency"]))

    @property
    def top_level(self) -> dict[str, Any]:
        """Speed at the highest concurrency."""
        return self.levels[-1] if self.levels else {}

    @property
    def worst(self) -> tuple[str, dict[str, Any]] | None:
        """The category that lost most, of those scored by shares."""
        compared = [
            (name, part)
            for name, part in self.categories.items()
            if "delta" in part and not part["unit"]
        ]
        return min(compared, key=lambda item: float(item[1]["delta"]), default=None)


@dataclass(frozen=True)
class View:
    """One release."""

    name: str
    model_source: str
    model_note: str | None
    parameters: int | None
    policy: dict[str, Any]
    confidence: float
    noise: dict[str, Any]
    """What two runs of the baseline differ by: ``fidelity`` and ``evaluation``."""
    rows: list[Row]
    sensitivity: dict[str, list[dict[str, Any]]]
    calibration: dict[str, dict[str, Any]]
    """The report of the mix in use, by mix name; ``check``: what its check found."""

    @property
    def baseline(self) -> Row:
        """The row the others are compared with."""
        return self.rows[0]

    @property
    def categories(self) -> list[str]:
        """The baseline's categories."""
        return list(self.baseline.categories)

    @property
    def units(self) -> dict[str, str]:
        """Units of the categories that are not scored by shares."""
        return {
            name: part["unit"] for name, part in self.baseline.categories.items() if part["unit"]
        }

    @property
    def not_measured(self) -> dict[str, dict[str, str]]:
        """Tasks that were left out for any variant: category and reason."""
        found: dict[str, dict[str, str]] = {}
        for row in self.rows:
            found |= row.entry.get("not_measured") or {}
        return found

    @property
    def texts(self) -> list[str]:
        """Categories of the held-out texts."""
        return list(self.baseline.fidelity.get("categories", {}))

    @property
    def lengths(self) -> list[str]:
        """Lengths of the long texts asked about, rising."""
        return list(self.baseline.lengths)

    @property
    def depths(self) -> list[int]:
        """Depths that planted facts stand at, percent."""
        return sorted({at for row in self.rows for cells in row.retrieval.values() for at in cells})

    @property
    def concurrency(self) -> list[int]:
        """Levels that any variant was measured at."""
        return sorted({level["concurrency"] for row in self.rows for level in row.levels})

    @property
    def counts(self) -> dict[str, int]:
        """Variants by verdict, the baseline not counted."""
        verdicts = [row.verdict for row in self.rows if not row.is_baseline]
        return {each: verdicts.count(each) for each in ("GO", "NO-GO", "INCONCLUSIVE")}


def gather(config: Config) -> View:
    """Read what ``compare`` and ``gate`` wrote, and the records behind them.

    Raises:
        MissingInput: ``compare`` or ``gate`` did not run.
    """
    workspace, release = config.workspace, config.release
    deltas = read_json(workspace.deltas, "qpipe compare")
    gate = read_json(workspace.gate, "qpipe gate")
    require(deltas["variants"], release.names[1:], workspace.deltas, "qpipe compare")
    require(gate["verdicts"], release.names, workspace.gate, "qpipe gate")
    manifest = _optional(workspace.model / "manifest.json", "qpipe model")
    return View(
        name=release.name,
        model_source=str(manifest.get("source") or release.model.source),
        model_note=manifest.get("note"),
        parameters=manifest.get("parameters"),
        policy={key: value for key, value in gate["policy"].items() if value is not None},
        confidence=deltas["confidence"],
        noise=deltas.get("noise") or {},
        rows=[_row(config, name, deltas, gate["verdicts"][name]) for name in release.names],
        sensitivity={source: units for source, units in deltas["sensitivity"].items() if units},
        calibration=_calibration(config),
    )


def _row(config: Config, name: str, deltas: dict[str, Any], verdict: dict[str, Any]) -> Row:
    entry = deltas["baseline"] if name == BASELINE else deltas["variants"][name]
    mode = (entry.get("provenance") or {}).get("mode") or "native"
    return Row(
        name=name,
        title=_title(config, name),
        mode="unsupported" if entry.get("unsupported") else mode,
        verdict=verdict["verdict"],
        reasons=verdict["reasons"],
        notes=verdict["notes"],
        next=verdict["next"],
        entry=entry,
    )


def _title(config: Config, name: str) -> str:
    scheme = config.scheme_of(name)
    if scheme is None:
        return "unquantized baseline"
    fallback = config.release.fallback.get(name)
    if fallback is None:
        return scheme.title
    return f"{fallback.source} with {fallback.restore_units} groups put back to 16 bits"


def _calibration(config: Config) -> dict[str, dict[str, Any]]:
    """The report of the mix in use, by mix name."""
    name = Path(config.release.calibration.mix).stem
    report = _optional(config.workspace.calibration(name) / "report.json", "qpipe calibrate")
    check = _optional(config.workspace.calibration_check, "qpipe calibrate --check")
    if check.get("calibration_hash") != report.get("hash"):
        check = {}  # of another set
    return {name: {**report, "check": check}} if report else {}


def _optional(path: Path, made_by: str) -> dict[str, Any]:
    return read_json(path, made_by) if path.exists() else {}
