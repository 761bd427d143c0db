"""What commands share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

__all__ = ["read_config", "show_progress"]


def read_config() -> Any:
    """Of the workspace that is the current folder."""
    from qpipe.config import load_config
    from qpipe.paths import Workspace

    return load_config(Workspace.here())


@contextmanager
def show_progress(stage: str) -> Iterator[Any]:
    """A spinner with the latest step on a terminal, plain lines elsewhere."""
    import time

    from rich.console import Console

    console = Console(stderr=True)
    started = time.monotonic()

    def stamp() -> str:
        return f"{stage}  {time.monotonic() - started:4.0f} s"

    if not console.is_terminal:
        yield lambda message: click.echo(f"{stamp()}  {message}", err=True)
        return
    with console.status("") as status:

        def show(message: str) -> None:
            console.print(f"[dim]{stamp()}[/]  {message}", highlight=False)
            status.update(message)

        yield show
