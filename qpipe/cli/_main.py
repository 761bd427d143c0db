"""Commands, their help and their exit codes."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Any, NoReturn

import click

from qpipe import __version__
from qpipe.cli._doctor import doctor
from qpipe.cli._evalset import evalset
from qpipe.cli._shared import read_config, show_progress
from qpipe.errors import QpipeError

__all__ = ["main"]

EPILOG = (
    "Exit codes: 0 done, 2 usage, 3 config or data, 4 environment or machine, 5 a worker or the "
    "engine died, 6 invalid measurement, 7 the gate says no, 130 interrupted."
)


def main() -> NoReturn:
    """Entry point: runs a command and turns errors into one message and an exit code."""
    from qpipe.processes import QUIET

    for key, value in QUIET.items():
        os.environ.setdefault(key, value)
    # DVC and CI stop a stage with SIGTERM, a closed terminal with SIGHUP: end children on the same
    # way out as Ctrl-C.
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup asks for the contrary
        signal.signal(signal.SIGHUP, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode still gets its table
    debug = "--debug" in sys.argv
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; finished work is kept, run the command again to go on", err=True)
        sys.exit(130)
    except QpipeError as error:
        if debug:
            raise
        click.echo(f"qpipe: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        if debug:
            raise
        click.echo(f"qpipe: a fault of qpipe itself: {type(error).__name__}: {error}", err=True)
        click.echo("  mend: run `qpipe --debug …` and report the traceback", err=True)
        sys.exit(1)
    sys.exit(0)


def _interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="qpipe")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def cli(debug: bool) -> None:
    """Quantize a model, serve every variant, judge it against BF16, gate the release.

    Run from the folder that holds configs/release.yaml. `dvc repro` runs all stages.
    """


cli.add_command(doctor)
cli.add_command(evalset)


@cli.group()
def env() -> None:
    """Isolated environments for quantizing and serving."""


@env.command("sync")
@click.argument("names", nargs=-1)
def env_sync(names: tuple[str, ...]) -> None:
    """Install what is missing or out of date: quantize and serve, or the NAMES given.

    Example: qpipe env sync quantize serve
    """
    from qpipe.envs import sync
    from qpipe.paths import Workspace

    with show_progress("env") as progress:
        sync(list(names) or ["quantize", "serve"], Workspace.here(), progress)


@cli.command()
def validate() -> None:
    """Check the release file and every file it names.

    Faults of the release, scheme and suite files come first, all at once. Without any, those of the
    calibration mix, the held-out texts and the questions follow, with what stands in two of them,
    and of what does not fit the model or the settings.

    Example: qpipe validate
    """
    from qpipe.hardware import detect
    from qpipe.schemes import variant_mode
    from qpipe.validate import notes
    from qpipe.validate import validate as check

    config = read_config()
    check(config)
    names = ", ".join(config.release.names)
    click.echo(f"{config.release.name}: {len(config.release.names)} variants ({names}); no faults")
    for name in config.release.names:
        mode = variant_mode(config, name, detect())
        if mode.mode != "native":
            click.echo(f"note: '{name}' is {mode.mode} on this machine: {mode.reason}")
    for note in notes(config):
        click.echo(f"note: {note}")


@cli.command()
def inputs() -> None:
    """Note what stages read from outside the workspace: this machine, and folders named by path.

    A stage of `dvc repro`; there is no need to run it by hand.

    Example: qpipe inputs
    """
    from qpipe.inputs import note_inputs

    note_inputs(read_config())


@cli.command()
def model() -> None:
    """Bring the release's model to out/model.

    Example: qpipe model
    """
    from qpipe.model import make_model

    with show_progress("model") as progress:
        manifest = make_model(read_config(), progress)
    click.echo(f"{manifest['source']}: {manifest['parameters'] / 1e6:.0f}M parameters")
    if manifest["note"]:
        click.echo(manifest["note"])


@cli.command()
@click.option("--check", is_flag=True, help="Compare the set with what is evaluated.")
@click.option("--json", "as_json", is_flag=True, help="Print the report, or the check, as JSON.")
def calibrate(check: bool, as_json: bool) -> None:
    """Build the calibration set; with --check also see whether it covers what is evaluated.

    The check writes out/calib_check.json and warns of categories whose tokens, scripts or
    activations calibration hardly shows. Evaluation or held-out text in the mix is an error.

    Example: qpipe calibrate --check
    """
    import json
    from pathlib import Path

    from qpipe.calibration import build_calibration, note_uses

    config = read_config()
    use, workspace = config.release.calibration, config.workspace
    out = workspace.calibration(Path(use.mix).stem)
    mix = workspace.root / use.mix
    trust = config.release.model.trust_remote_code
    record = build_calibration(mix, workspace.model, out, use.samples, use.tokens, use.seed, trust)
    note_uses(config, record["hash"])
    if not as_json:
        click.echo(f"{use.mix}: {record['samples']} rows of {record['tokens']} tokens")
        for note in record["notes"]:
            click.echo(f"  note: {note}")
    if check:
        from qpipe.coverage import check_calibration

        with show_progress("check") as progress:
            record = check_calibration(config, progress)
        if not as_json:
            _show_check(record)
    if as_json:
        click.echo(json.dumps(record, indent=2, ensure_ascii=False))


def _show_check(record: dict[str, Any]) -> None:
    from rich.console import Console

    from qpipe.coverage import check_table

    console = Console()
    console = console if console.is_terminal else Console(width=160)
    console.print(check_table(record))
    for overlap in record["overlap"]["listed"]:
        click.echo(f"note: {overlap['text']} and {overlap['source']} share '{overlap['shared']}'")
    for note in record["notes"]:
        click.echo(f"note: {note}")
    for warning in record["warnings"]:
        click.echo(f"warning: {warning['group'] or record['mix']}: {'; '.join(warning['reasons'])}")
        click.echo(f"  mend: {warning['mend']}")
    click.echo(f"calibration check: {record['verdict']}")


@cli.command()
@click.argument("variant")
@click.option("--dry-run", is_flag=True, help="Show what it does and takes; start nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the dry run as JSON.")
def quantize(variant: str, dry_run: bool, as_json: bool) -> None:
    """Build VARIANT's checkpoint under out/models.

    Before any work, schemes are checked against the model's shapes, and disk and memory against
    what is there. A dry run prints all that, with an estimate of the time, and exits with 4 where
    disk or memory is short.

    Example: qpipe quantize gptq-w4a16 --dry-run
    """
    import json

    from rich.console import Console

    from qpipe.forecast import forecast, show
    from qpipe.hardware import detect
    from qpipe.quantize import make_variant
    from qpipe.schemes import work_of

    if as_json and not dry_run:
        raise click.UsageError("--json goes with --dry-run")
    if not dry_run:
        with show_progress(f"quantize {variant}") as progress:
            manifest = make_variant(read_config(), variant, progress)
        click.echo(f"{variant}: {manifest['weights_gib']:.3f} GiB of weights")
        return
    config = read_config()
    found = forecast(config, work_of(config, variant), detect())
    if as_json:
        click.echo(json.dumps(found.record(), indent=2, ensure_ascii=False))
    else:
        console = Console()
        show(found, console if console.is_terminal else Console(width=160))
    found.require()


@cli.command()
@click.argument("variant")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(["fidelity", "evaluate", "stability", "bench"]),
    help="Only this part; may be given more than once.",
)
def measure(variant: str, only: tuple[str, ...]) -> None:
    """Serve VARIANT once and measure all parts on that server.

    Example: qpipe measure gptq-w4a16 --only fidelity
    """
    from qpipe.measure import PARTS
    from qpipe.measure import measure as run

    with show_progress(f"measure {variant}") as progress:
        run(read_config(), variant, progress, only or PARTS)


@cli.command()
@click.argument("variant")
def fidelity(variant: str) -> None:
    """Serve VARIANT and measure how near its distribution is to the baseline's.

    The same as `qpipe measure VARIANT --only fidelity`.

    Example: qpipe fidelity gptq-w4a16
    """
    from qpipe.measure import measure as run

    with show_progress(f"fidelity {variant}") as progress:
        run(read_config(), variant, progress, ["fidelity"])


@cli.command()
@click.argument("source")
def sensitivity(source: str) -> None:
    """Rank SOURCE's fused units by the KL that each costs.

    Example: qpipe sensitivity gptq-w4a16
    """
    from qpipe.sensitivity import rank_units

    with show_progress(f"sensitivity {source}") as progress:
        record = rank_units(read_config(), source, progress)
    for row in record["units"][:10]:
        click.echo(f"{row['kl']:.5f}  {row['unit']}")


@cli.command()
def compare() -> None:
    """Compare every variant with the baseline, paired per question.

    Example: qpipe compare
    """
    from qpipe.compare import compare as run

    run(read_config())


@cli.command()
@click.option("--enforce", is_flag=True, help="Exit with 7 unless every variant is GO.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
def gate(enforce: bool, as_json: bool) -> None:
    """Give each variant its verdict from the policy in the release file.

    Example: qpipe gate --enforce
    """
    import json

    from qpipe.gate import enforce as check
    from qpipe.gate import gate as run

    config = read_config()
    record = run(config)
    if as_json:
        click.echo(json.dumps(record, indent=2, ensure_ascii=False))
    else:
        for name, entry in record["verdicts"].items():
            label = "baseline" if name == "bf16" else entry["verdict"]
            click.echo(f"{label:<13} {name}")
    if enforce:
        check(record)


@cli.command()
def track() -> None:
    """Log the release and its variants to MLflow.

    Example: qpipe track
    """
    from qpipe.track import track as run

    record = run(read_config())
    click.echo(f"MLflow run {record['run_id']} in {record['uri']}")


@cli.command()
@click.option("--table", is_flag=True, help="Print the table of verdicts; write nothing.")
def report(table: bool) -> None:
    """Write out/report/index.html and report.md.

    Example: qpipe report --table
    """
    from rich.console import Console

    from qpipe.report import report as run
    from qpipe.report import verdict_table

    config = read_config()
    if table:
        console = Console()
        verdict_table(config, console if console.is_terminal else Console(width=160))
        return
    run(config)
    click.echo(f"report: {config.workspace.report / 'index.html'}")


@cli.command()
@click.argument("variant")
def serve(variant: str) -> None:
    """Serve VARIANT as it is measured, until Ctrl-C.

    Example: qpipe serve gptq-w4a16
    """
    from qpipe.hardware import detect
    from qpipe.serving import plan_serving, start

    config = read_config()
    with show_progress(f"serve {variant}") as progress:
        plan = plan_serving(config, variant, detect(), progress)
        with start(plan, config.workspace, progress) as server:
            progress(f"{variant} answers at {server.client.base_url} (Ctrl-C ends it)")
            server.wait()
