"""The terminal's one table."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from qpipe.config import Config
from qpipe.report._format import number, percent, ratio, signed
from qpipe.report._view import Row, gather

__all__ = ["verdict_table"]

_WIDE = 150
_NARROW = 100
_STYLES = {"GO": "bold green", "NO-GO": "bold red", "INCONCLUSIVE": "bold yellow"}


def verdict_table(config: Config, console: Console | None = None) -> Table:
    """One row a variant: verdict, fidelity, score, speed, memory, reason.

    With a console the table is printed; one too narrow for the reasons gets them as lines below.

    Raises:
        MissingInput: ``compare`` or ``gate`` did not run.
    """
    view = gather(config)
    wide = console is None or console.width >= _WIDE
    at = f" @{view.concurrency[-1]}" if view.concurrency else ""
    table = Table(title=f"Release {view.name}", title_justify="left", box=SIMPLE_HEAD)
    for header in ("variant", "verdict"):
        table.add_column(header, no_wrap=True)
    # A figure is never broken in two; its change beside it may go on the next line.
    for header, breaks in (
        ("KL", False),
        ("top-1", False),
        ("score (worst Δ)", True),
        (f"tok/s{at}", True),
        ("GiB", False),
        ("KV tokens", False),
    ):
        table.add_column(header, justify="right", no_wrap=not breaks)
    if wide:
        table.add_column("scheme")
        table.add_column("reason")
    for row in view.rows:
        table.add_row(*_cells(row, wide), *(_words(row) if wide else ()))
    if console is not None:
        console.print(table)
        if console.width < _NARROW:
            console.print(f"Columns that {console.width} characters cannot hold are in the report.")
        for row in view.rows if not wide else ():
            scheme, reason = _words(row)
            console.print(f"[bold]{row.name}[/] ({scheme}): {reason}", highlight=False)
    return table


def _cells(row: Row, wide: bool) -> list[str]:
    style = _STYLES[row.verdict] if not row.is_baseline else "none"
    worst = row.worst
    score = number(row.overall.get("score"))
    if unpaired := row.entry.get("unpaired_baseline"):
        paired = row.entry["paired"]
        score += f" ({paired} of {paired + unpaired} questions)"
    if worst and worst[1]["delta"] < 0:
        where = f"{worst[0]} " if wide else ""
        score += f" ({where}{signed(worst[1]['delta'])})"
    speed = _with_ratio(number(row.top_level.get("output_tok_s"), 0), row, "output_tok_s")
    weights = number(row.memory.get("weights_gib"), 2)
    return [
        row.name if row.mode == "native" else f"{row.name} ({row.mode})",
        f"[{style}]{row.label}[/]",
        number(row.fidelity.get("kl_mean"), 4),
        percent(row.fidelity.get("top1_agreement")),
        score,
        speed,
        weights,
        number(row.memory.get("kv_capacity_tokens"), 0),
    ]


def _words(row: Row) -> tuple[str, str]:
    """Scheme and main reason."""
    return escape(row.title), escape(row.reasons[0])


def _with_ratio(text: str, row: Row, key: str) -> str:
    found = row.top_level.get(f"{key}_ratio")
    return text if found is None or row.is_baseline else f"{text} ({ratio(found)})"
