"""What the calibration set is compared with: evaluation texts, in groups of one category."""

from __future__ import annotations

from dataclasses import dataclass

from qpipe.config import BusinessSuite, Config
from qpipe.evaluation import load_business
from qpipe.fidelity import load_paragraphs

__all__ = ["HELD_OUT", "Group", "load_groups"]

HELD_OUT = "held-out"


@dataclass(frozen=True)
class Group:
    """Texts of one category, from one suite or from the held-out texts."""

    name: str
    """``SUITE/CATEGORY``, or ``held-out/CATEGORY``."""
    category: str
    prompts: list[str]
    """Questions, or held-out paragraphs."""
    answers: list[str]
    """Right answers, in the questions' order; held-out paragraphs have none."""

    @property
    def held_out(self) -> bool:
        """Whether these are held-out paragraphs."""
        return self.name.startswith(f"{HELD_OUT}/")

    @property
    def texts(self) -> list[str]:
        """Each prompt with its answer."""
        return [f"{p}\n{a}" for p, a in zip(self.prompts, self.answers, strict=True)]


def load_groups(config: Config) -> list[Group]:
    """Business questions of the release's suites, then held-out paragraphs.

    Raises:
        ConfigError: rows or held-out texts have faults.
    """
    groups = []
    for name, suite in config.suites.items():
        if isinstance(suite, BusinessSuite):
            rows_of = load_business(config.suite_files[name], suite, config.workspace.root)
            for category, rows in rows_of.items():
                prompts, answers = [row.text for row in rows], [row.target for row in rows]
                groups.append(Group(f"{name}/{category}", category, prompts, answers))
    for category, parts in load_paragraphs(config).items():
        groups.append(Group(f"{HELD_OUT}/{category}", category, parts, [""] * len(parts)))
    return groups
