"""``qpipe doctor``."""

from __future__ import annotations

from typing import Any

import click

from qpipe.cli._shared import show_progress

__all__ = ["doctor"]


@click.command()
@click.argument("schemes", nargs=-1)
@click.option(
    "--verify", "run", is_flag=True, help="Quantize and serve a tiny model by each scheme."
)
@click.option("--json", "as_json", is_flag=True, help="Print the examination as JSON.")
def doctor(schemes: tuple[str, ...], run: bool, as_json: bool) -> None:
    """Show this machine, the environments, and which schemes run here: natively or simulated.

    A mode follows from the rule in the scheme's file. --verify tries it, which takes about a minute
    a scheme: kernels are read from the engine's log, and a native scheme must compute what its
    simulation does. What was seen is shown until scheme, machine or environments change. Exits
    with 5 if a scheme failed.

    Example: qpipe doctor --verify gptq-w4a16 fp8-dynamic
    """
    from qpipe.config import load_schemes
    from qpipe.doctor import examine
    from qpipe.errors import EngineError
    from qpipe.hardware import detect
    from qpipe.paths import Workspace

    workspace = Workspace.here()
    known = load_schemes(workspace)
    for name in schemes:
        if name not in known:
            raise click.BadParameter(f"there is no scheme '{name}'; known: {', '.join(known)}")
    chosen = {name: known[name] for name in schemes or known}
    failed: list[str] = []
    if run:
        from qpipe.doctor.verify import verify

        with show_progress("doctor") as progress:
            entries = verify(workspace, chosen, detect(), progress)
        failed = [name for name, entry in entries.items() if entry["outcome"] == "failed"]
    record = examine(workspace, detect(), chosen)
    _show_examination(record, as_json)
    if failed:
        raise EngineError(
            f"{len(failed)} of {len(chosen)} schemes do not run as declared: {', '.join(failed)}",
            mend="see what the table says of them, and the logs in .qpipe/logs/doctor",
        )


def _show_examination(record: Any, as_json: bool) -> None:
    import json

    from rich.console import Console

    from qpipe.doctor import show

    if as_json:
        click.echo(json.dumps(record, indent=2, ensure_ascii=False))
        return
    console = Console()
    show(record, console if console.is_terminal else Console(width=160))
