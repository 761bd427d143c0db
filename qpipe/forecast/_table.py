"""The forecast as a person reads it."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from qpipe.forecast._forecast import Forecast
from qpipe.room import GIB

__all__ = ["show"]


def show(found: Forecast, console: Console) -> None:
    """Print what would be done, what it takes, and what is there."""
    work, runs = found.work, found.mode.arithmetic
    rows = f"{work.rows} rows of {work.tokens} tokens" if work.rows else "none"
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, said in (
        ("variant", f"{work.variant}, scheme {work.scheme_name}: {work.scheme.title}"),
        ("here", f"{found.mode.mode}: {found.mode.reason}"),
        ("arithmetic", f"weights {runs.weights}, activations {runs.activations}, KV {runs.kv}"),
        ("steps", ", ".join(step.method for step in work.scheme.steps) or "none"),
        ("ready-made", work.ready_made or "no"),
        (
            "modules",
            f"{len(work.quantized)} quantized, {len(work.restored)} restored to 16 bits, "
            f"{len(work.ignored)} left at 16 bits",
        ),
        ("calibration", rows),
        ("shapes", "groups, blocks, packing, splits over devices and fused units: no faults"),
        ("checkpoint", f"{found.checkpoint_bytes / GIB:.3f} GiB"),
        ("twin", f"{found.twin_bytes / GIB:.3f} GiB" if found.twin_bytes else "none"),
        ("time", f"{found.duration}, a rough size"),
    ):
        table.add_row(name, escape(said))
    console.print(table, highlight=False)
    console.print()
    room = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("needs", "GiB", "there", "fits"):
        room.add_column(heading, justify="left" if heading in ("needs", "fits") else "right")
    for need in (found.disk, found.weights, *found.memory):
        fits = "yes" if need.fits else "[red]no[/]"
        room.add_row(need.what, f"{need.needed / GIB:.2f}", f"{need.there / GIB:.2f}", fits)
    console.print(room)
