"""Where everything lies, relative to the workspace (the folder with ``configs/release.yaml``)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PACKAGE", "Workspace"]

PACKAGE = Path(__file__).parent


@dataclass(frozen=True)
class Workspace:
    """One release's folder: ``out/`` is DVC's; ``.qpipe/`` has caches, logs and environments."""

    root: Path

    @classmethod
    def here(cls) -> Workspace:
        """The workspace of the current directory."""
        return cls(Path.cwd())

    @property
    def out(self) -> Path:
        """What stages write."""
        return self.root / "out"

    @property
    def state(self) -> Path:
        """Caches and logs, never an input of a stage."""
        return self.root / ".qpipe"

    @property
    def envs(self) -> Path:
        """Isolated environments; ``QPIPE_ENVS`` shares one set between workspaces."""
        override = os.environ.get("QPIPE_ENVS")
        return Path(override) if override else self.state / "envs"

    @property
    def logs(self) -> Path:
        """Logs of workers and engines."""
        return self.state / "logs"

    @property
    def cache(self) -> Path:
        """Results kept by content, so that a killed stage goes on where it was."""
        return self.state / "cache"

    @property
    def release(self) -> Path:
        """The release file."""
        return self.root / "configs" / "release.yaml"

    @property
    def model(self) -> Path:
        """The BF16 checkpoint and its manifest."""
        return self.out / "model"

    def calibration(self, mix: str) -> Path:
        """The calibration set of one mix."""
        return self.out / "calib" / mix

    @property
    def calibration_uses(self) -> Path:
        """What of the calibration set each variant depends on, a file a variant."""
        return self.out / "calib_uses"

    @property
    def calibration_check(self) -> Path:
        """How well the calibration set covers what is evaluated."""
        return self.out / "calib_check.json"

    def checkpoint(self, variant: str) -> Path:
        """A variant's checkpoint; the baseline's is the model itself."""
        return self.model if variant == "bf16" else self.out / "models" / variant

    def evaluation(self, variant: str) -> Path:
        """``results.json`` and ``samples.parquet`` of a variant."""
        return self.out / "eval" / variant

    def fidelity(self, variant: str) -> Path:
        """A variant's fidelity record."""
        return self.out / "fidelity" / f"{variant}.json"

    def stability(self, variant: str) -> Path:
        """A variant's stability record."""
        return self.out / "stability" / f"{variant}.json"

    def bench(self, variant: str) -> Path:
        """A variant's bench record."""
        return self.out / "bench" / f"{variant}.json"

    def sensitivity(self, source: str) -> Path:
        """The sensitivity record of one source variant: the fidelity of its units.

        It lies in the fidelity folder, which always exists and which the comparison depends on.
        """
        return self.out / "fidelity" / "units" / f"{source}.json"

    @property
    def deltas(self) -> Path:
        """The comparison of every variant with the baseline."""
        return self.out / "compare" / "deltas.json"

    @property
    def gate(self) -> Path:
        """The verdicts."""
        return self.out / "gate.json"

    @property
    def report(self) -> Path:
        """Folder of the HTML and Markdown reports."""
        return self.out / "report"

    @property
    def track(self) -> Path:
        """What was logged to MLflow and where."""
        return self.out / "track.json"
