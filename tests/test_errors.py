from __future__ import annotations

from pathlib import Path

from qpipe import errors
from qpipe.errors import ConfigError, Fault, MissingInput, QpipeError

CODES = {
    "QpipeError": 1,
    "ConfigError": 3,
    "DamagedInput": 3,
    "MissingInput": 3,
    "EnvError": 4,
    "WorkerError": 5,
    "EngineError": 5,
    "InvalidMeasurement": 6,
    "GateError": 7,
}


def test_exit_codes_are_the_documented_ones() -> None:
    kinds = {name: getattr(errors, name) for name in errors.__all__ if name != "Fault"}
    assert {name: kind.exit_code for name, kind in kinds.items()} == CODES
    assert all(issubclass(kind, QpipeError) for kind in kinds.values())
    # 2 is the usage error of the command line, 130 Ctrl-C.
    assert {2, 130}.isdisjoint(CODES.values())


def test_message_carries_the_mend() -> None:
    assert str(QpipeError("it broke")) == "it broke"
    assert str(QpipeError("it broke", "mend it")) == "it broke\n  mend: mend it"
    missing = str(MissingInput(Path("out/x.json"), "qpipe x"))
    assert missing == "out/x.json is missing\n  mend: run `qpipe x` first"


def test_config_error_names_every_fault() -> None:
    faults = [Fault("a.yaml", "x.y", "is bad", "do z"), Fault("b.yaml", "-", "is worse", "do w")]
    error = ConfigError(iter(faults))
    assert error.faults == tuple(faults)
    assert str(error) == "a.yaml: x.y: is bad\n  mend: do z\nb.yaml: -: is worse\n  mend: do w"
