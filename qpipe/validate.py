"""``qpipe validate``: what can be known to be wrong before any work starts."""

from __future__ import annotations

from collections.abc import Callable

from qpipe.calibration import load_mix
from qpipe.config import Config
from qpipe.errors import ConfigError, Fault
from qpipe.evaluation import load_business
from qpipe.model import linears
from qpipe.schemes import preflight

__all__ = ["validate"]


def validate(config: Config) -> None:
    """Check mixes, business rows, and schemes against the model where it is there already.

    Raises:
        ConfigError: with all faults of all files.
    """
    faults: list[Fault] = []
    root, release = config.workspace.root, config.release

    def collect(check: Callable[[], object]) -> None:
        try:
            check()
        except ConfigError as error:
            faults.extend(error.faults)

    collect(lambda: load_mix(root / release.calibration.mix, root))
    for name, suite in config.suites.items():
        if suite.kind == "business":
            file = config.suite_files[name]
            collect(lambda file=file, suite=suite: load_business(file, suite, root))  # type: ignore[misc]
    if (config.workspace.model / "config.json").exists():
        modules = linears(config.workspace.model)
        for name, scheme in config.schemes.items():
            collect(lambda name=name, scheme=scheme: preflight(name, scheme, modules))  # type: ignore[misc]
    if faults:
        raise ConfigError(faults)
