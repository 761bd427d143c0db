"""``qpipe validate``: what can be known to be wrong before any work starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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

    def collect(check: Callable[..., object], *args: Any) -> None:
        try:
            check(*args)
        except ConfigError as error:
            faults.extend(error.faults)

    collect(load_mix, root / release.calibration.mix, root)
    for name, suite in config.suites.items():
        if suite.kind == "business":
            collect(load_business, config.suite_files[name], suite, root)
    if (config.workspace.model / "config.json").exists():
        collect(preflight, config.schemes, linears(config.workspace.model))
    if faults:
        raise ConfigError(faults)
