"""``qpipe evalset``."""

from __future__ import annotations

import click

from qpipe.cli._shared import read_config

__all__ = ["evalset"]


@click.group()
def evalset() -> None:
    """Your own questions: begin a suite, find its faults, see it as the model will."""


@evalset.command("init")
@click.argument("name")
def evalset_init(name: str) -> None:
    """Begin the suite NAME with two sample rows for every scorer.

    Writes evalsets/business/NAME.yaml and NAME/CATEGORY.jsonl beside it, and overwrites nothing.

    Example: qpipe evalset init support
    """
    from qpipe.evalset import init_evalset
    from qpipe.paths import Workspace

    workspace = Workspace.here()
    for path in init_evalset(workspace, name):
        click.echo(path.relative_to(workspace.root))
    click.echo(f"next: put your questions there, then run `qpipe evalset validate {name}`")


@evalset.command("validate")
@click.argument("name", required=False)
def evalset_validate(name: str | None) -> None:
    """Check the rows of NAME, or of every suite in evalsets/business, and show all faults at once.

    Beside malformed rows these are: questions asked twice, texts that stand in the calibration mix
    or the held-out texts too (and in both of these), and, once `qpipe model` ran, rows longer than
    the context of a variant.

    Example: qpipe evalset validate support
    """
    from qpipe.evalset import check_evalsets

    for suite, rows in check_evalsets(read_config(), name).items():
        click.echo(f"{suite}: {rows} rows; no faults")


@evalset.command("preview")
@click.argument("name")
@click.option("--rows", default=2, show_default=True, type=click.IntRange(1), help="A category.")
def evalset_preview(name: str, rows: int) -> None:
    """Show the first rows of every category of NAME, with scorer, reference and level.

    Prompts are shown through the model's chat template if the suite chats and `qpipe model` ran.

    Example: qpipe evalset preview support --rows 1
    """
    from rich.console import Console

    from qpipe.evalset import preview_evalset

    preview_evalset(read_config(), name, rows, Console(highlight=False))
