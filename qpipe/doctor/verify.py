"""``qpipe doctor --verify``: every scheme on a tiny model, quantized and served for real."""

from __future__ import annotations

import fcntl
import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from qpipe.config import BASELINE, Config, Release, Scheme
from qpipe.doctor._kept import keep
from qpipe.envs import run_worker
from qpipe.errors import EngineError, EnvError, QpipeError
from qpipe.fidelity import compare_texts, served_logprobs
from qpipe.hardware import Hardware
from qpipe.model import make_model
from qpipe.paths import Workspace
from qpipe.quantize import make_variant
from qpipe.records import digest, write_json, write_text
from qpipe.schemes import WIDE, Mode, variant_mode
from qpipe.serving import Plan, plan_serving, start

__all__ = ["verify"]

Progress = Callable[[str], None]
TWIN = "-simulated"
"""Ends the name of a native scheme's imitation."""
# Sizes that every group, block and head of the checked-in schemes divides.
TINY = {"hidden": 256, "head": 64}
ROWS, ROW_TOKENS = 8, 64
TEXTS, TEXT_TOKENS = 8, 128
TOKENS = 300
"""Random ids are drawn below this."""
RELEASE = {
    "name": "doctor",
    "model": {"source": "path:tiny"},
    "calibration": {"samples": ROWS, "tokens": ROW_TOKENS},
    "serve": {"max_model_len": 512, "max_num_seqs": 8, "kv_cache_gib": 1},
    "fidelity": {"top_k": 64, "concurrency": 4},
    "evaluation": {"suites": ["none"]},
    "gate": {},
}
# Where only weights are quantized, a kernel has nothing to round otherwise than the simulation.
# Where activations are, the order of rounding differs, and the distance to 16 bits must not.
ROUNDED_LATE = ("activations", "kv")
DIRECT_SHARE, DIRECT_FLOOR = 0.05, 0.001
DISTANCE_SHARE, DISTANCE_FLOOR = 0.10, 0.001


@dataclass(frozen=True)
class Scratch(Workspace):
    """A workspace of its own that runs on another's environments."""

    home: Workspace

    @property
    def envs(self) -> Path:
        """Those of ``home``."""
        return self.home.envs

    @property
    def logs(self) -> Path:
        """Those of ``home``: they outlive this workspace."""
        return self.home.logs / "doctor"


def verify(
    workspace: Workspace,
    schemes: Mapping[str, Scheme],
    hardware: Hardware,
    progress: Progress,
) -> dict[str, Any]:
    """Quantize and serve each scheme; returns entries by name and keeps them for `qpipe doctor`.

    An entry has ``outcome`` (``ran``, ``failed``, ``unsupported``), what was ``said`` of a failure,
    the ``kernels`` of the engine's log and ``kl``, nats a token to the served 16-bit model. A
    native scheme is also simulated: ``twin_kl`` is the simulation's, ``direct_kl`` from one to the
    other.

    Raises:
        EnvError: another verification is under way in this workspace.
        QpipeError: the 16-bit model itself cannot be made or served.
    """
    first = next(iter(schemes.items()))  # a release has one
    with _alone(workspace):
        scratch = _scratch(workspace, first, progress)
        texts = _texts()
        progress("the 16-bit model")
        _, baseline = _served(_config(scratch, *first), BASELINE, hardware, texts)
        entries: dict[str, Any] = {}
        for name, scheme in schemes.items():
            progress(name)
            entry = _examined(_config(scratch, name, scheme), name, hardware, texts, baseline)
            keep(workspace, name, scheme, hardware, entry)
            entries[name] = entry
        shutil.rmtree(scratch.root, ignore_errors=True)
    return entries


@contextmanager
def _alone(workspace: Workspace) -> Iterator[None]:
    """One run at a time has the scratch folder; the lock of a killed one goes with its process.

    Raises:
        EnvError: another has it.
    """
    path = workspace.state / "doctor.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = "another `qpipe doctor --verify` runs in this workspace"
            raise EnvError(message, mend="wait until it is done, or end it") from error
        yield


def _scratch(workspace: Workspace, first: tuple[str, Scheme], progress: Progress) -> Scratch:
    """A tiny model with a calibration set, in a folder that nothing else uses."""
    root = workspace.state / "doctor"
    shutil.rmtree(root, ignore_errors=True)
    scratch = Scratch(root, workspace)
    shutil.copytree(workspace.root / "configs" / "envs", root / "configs" / "envs")
    tiny = root / "tiny"
    tiny.mkdir()
    request = {"output": str(tiny), **TINY}
    run_worker("quantize", "tiny", request, scratch, "tiny", progress)
    make_model(_config(scratch, *first), lambda _: None)
    draw = random.Random(0)
    rows = [[draw.randrange(2, TOKENS) for _ in range(ROW_TOKENS)] for _ in range(ROWS)]
    lines = [json.dumps({"input_ids": row}) + "\n" for row in rows]
    folder = scratch.calibration("mix")
    folder.mkdir(parents=True)
    write_text(folder / "calib.jsonl", "".join(lines))
    write_json(folder / "report.json", {"hash": digest(rows)})
    return scratch


def _config(scratch: Scratch, name: str, scheme: Scheme) -> Config:
    """A release of one scheme and of its simulation: another's faults must not stop it."""
    variants = {name: {"scheme": name}, name + TWIN: {"scheme": name, "simulate": True}}
    release = Release.model_validate({**RELEASE, "variants": variants})
    return Config(scratch, release, {name: scheme}, {}, {})


def _texts() -> pd.DataFrame:
    draw = random.Random(1)
    texts = [[draw.randrange(2, TOKENS) for _ in range(TEXT_TOKENS)] for _ in range(TEXTS)]
    common = {"kind": "held-out", "category": "random", "first": 0}
    return pd.DataFrame([{**common, "text": ids, "text_hash": digest(ids)} for ids in texts])


def _examined(
    config: Config,
    name: str,
    hardware: Hardware,
    texts: pd.DataFrame,
    baseline: pd.DataFrame,
) -> dict[str, Any]:
    mode = variant_mode(config, name, hardware)
    entry: dict[str, Any] = {"mode": mode.mode, "outcome": "unsupported", "said": mode.reason}
    if mode.mode == "unsupported":
        return entry
    try:
        make_variant(config, name, lambda _: None)
        said, measured = _served(config, name, hardware, texts)
        entry |= {"outcome": "ran", "said": "", **said}
        entry["kl"] = _kl(baseline, measured)
        if entry["kl"] == 0.0:
            raise EngineError("it answers exactly like the 16-bit model: nothing was quantized")
        twin_mode = variant_mode(config, name + TWIN, hardware)
        if mode.mode == "native" and _comparable(mode, twin_mode):
            shutil.copytree(
                config.workspace.checkpoint(name), config.workspace.checkpoint(name + TWIN)
            )
            _, twin = _served(config, name + TWIN, hardware, texts)
            entry |= {"twin_kl": _kl(baseline, twin), "direct_kl": _kl(twin, measured)}
            runs = mode.arithmetic.model_dump()
            _require_same(entry, any(runs[part] not in WIDE.values() for part in ROUNDED_LATE))
    except Exception as error:  # one scheme's fault, of qpipe too, must not end the others
        entry |= {"outcome": "failed", "said": _said(error)}
    finally:
        for each in (name, name + TWIN):
            shutil.rmtree(config.workspace.checkpoint(each), ignore_errors=True)
    return entry


def _comparable(native: Mode, twin: Mode) -> bool:
    """Whether there is a simulation, and it is of the kernel's arithmetic: one may round less.

    Of keys and values the CPU kernel's way is not the scheme's; distances still tell.
    """
    here, there = native.arithmetic, twin.arithmetic
    same = (here.weights, here.activations) == (there.weights, there.activations)
    return twin.mode == "simulated" and same


def _said(error: Exception) -> str:
    if isinstance(error, QpipeError):
        return error.message.partition("\n")[0]
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _served(
    config: Config, variant: str, hardware: Hardware, texts: pd.DataFrame
) -> tuple[dict[str, Any], pd.DataFrame]:
    """What the engine says it runs, and its logprobs of ``texts``."""
    plan: Plan = plan_serving(config, variant, hardware, lambda _: None)
    with start(plan, config.workspace, lambda _: None) as server:
        settings = config.release.fidelity
        measured = served_logprobs(server.client, texts, settings, settings.concurrency)
        return {"engine_version": server.engine_version, "kernels": list(server.kernels)}, measured


def _kl(baseline: pd.DataFrame, measured: pd.DataFrame) -> float:
    return float(compare_texts(baseline, measured)["kl_mean"])


def _require_same(entry: Mapping[str, Any], order_matters: bool) -> None:
    """Check that a native scheme computes what its simulation does.

    Raises:
        EngineError: its arithmetic is another.
    """
    kl, twin, direct = entry["kl"], entry["twin_kl"], entry["direct_kl"]
    weights_only = direct <= DIRECT_SHARE * twin + DIRECT_FLOOR
    distance = abs(kl - twin) <= DISTANCE_SHARE * twin + DISTANCE_FLOOR
    if not (weights_only or (order_matters and distance)):
        raise EngineError(
            f"its kernel computes something else: KL {kl:.4f} to 16 bits, {twin:.4f} simulated,"
            f" {direct:.4f} from one to the other"
        )
