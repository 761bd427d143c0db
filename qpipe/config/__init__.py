"""The files a user writes, as validated models."""

from qpipe.config._base import Name
from qpipe.config._load import Config, load_config, load_schemes, load_yaml
from qpipe.config._release import (
    BASELINE,
    Bench,
    CalibrationUse,
    Evaluation,
    Fallback,
    Fidelity,
    Gate,
    ModelSource,
    Release,
    Sensitivity,
    Serve,
    Stability,
    Tracking,
    Variant,
)
from qpipe.config._scheme import Arithmetic, QuantArgs, Scheme, Step
from qpipe.config._suite import (
    LONG_CONTEXT,
    READABLE,
    BusinessSuite,
    PublicSuite,
    PublicTask,
    Suite,
)

__all__ = [
    "BASELINE",
    "LONG_CONTEXT",
    "READABLE",
    "Arithmetic",
    "Bench",
    "BusinessSuite",
    "CalibrationUse",
    "Config",
    "Evaluation",
    "Fallback",
    "Fidelity",
    "Gate",
    "ModelSource",
    "Name",
    "PublicSuite",
    "PublicTask",
    "QuantArgs",
    "Release",
    "Scheme",
    "Sensitivity",
    "Serve",
    "Stability",
    "Step",
    "Suite",
    "Tracking",
    "Variant",
    "load_config",
    "load_schemes",
    "load_yaml",
]
