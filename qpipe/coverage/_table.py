"""The check on a terminal."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

__all__ = ["check_table"]


def check_table(record: dict[str, Any]) -> Table:
    """One row a group of evaluation texts; in brackets the reference that it is judged by."""
    table = Table(title=f"Calibration: {record['mix']}", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("texts")
    for header in ("tokens", "coverage", "JS, bits", "channels beyond", "similarity"):
        table.add_column(header, justify="right")
    table.add_column("script")
    table.add_column("")
    warned = {warning["group"] for warning in record["warnings"]}
    for name, group in record["groups"].items():
        inside = group.get("activations")
        script = next(iter(group["scripts"].items()), None)
        table.add_row(
            name,
            f"{group['tokens']:,}",
            _pair(group["drawn_coverage"], group["coverage_reference"], ".0%"),
            _pair(group["drawn_js"], group["js_reference"], ".2f"),
            _pair(inside["exceeding"], inside["exceeding_reference"], ".1%") if inside else "–",
            _pair(inside["similarity"], inside["similarity_reference"], ".3f") if inside else "–",
            f"{script[0].title()} {script[1]:.0%}" if script else "–",
            "[bold yellow]warn[/]" if name in warned else "",
        )
    return table


def _pair(value: float, reference: float | None, form: str) -> str:
    return f"{value:{form}}" if reference is None else f"{value:{form}} ({reference:{form}})"
