from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from qpipe.config import Config
from qpipe.errors import ConfigError, EngineError
from qpipe.evaluation import SuitePlan
from qpipe.hardware import Hardware
from qpipe.measure import PARTS, _stage, measure
from qpipe.paths import Workspace
from qpipe.records import read_json
from tests.workspace_fixture import A100, AMX, silent, small_config, write_model

Calls = list[str]


@pytest.fixture
def config(workspace: Workspace) -> Config:
    write_model(workspace)
    return small_config(workspace)


class Stand:
    """In place of the engine and of the parts: notes who was called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, workspace: Workspace) -> None:
        self.calls: Calls = []
        self.hardware: Hardware = AMX
        self.suites = SuitePlan([], {}, 512)
        self.workspace = workspace

        def note(name: str) -> Any:
            return lambda *_, **__: self.calls.append(name)

        monkeypatch.setattr(_stage, "detect", lambda: self.hardware)
        monkeypatch.setattr(_stage, "plan_serving", self.plan)
        monkeypatch.setattr(_stage, "start", self.start)
        monkeypatch.setattr(_stage, "held_out_texts", lambda *_: "texts")
        monkeypatch.setattr(_stage, "measure_fidelity", note("fidelity"))
        monkeypatch.setattr(_stage, "import_lm_eval", lambda: None)
        monkeypatch.setattr(_stage, "plan_suites", lambda *_: self.suites)
        monkeypatch.setattr(_stage, "run_suites", note("evaluate"))
        monkeypatch.setattr(_stage, "sampled_questions", self.questions)
        monkeypatch.setattr(_stage, "measure_stability", note("stability"))
        monkeypatch.setattr(_stage, "measure_bench", note("bench"))

    def questions(self, *_: Any) -> list[Any]:
        self.calls.append("questions")
        return []

    def plan(self, *_: Any) -> Any:
        return SimpleNamespace(tokenizer=self.workspace.model, checkpoint_hash="c")

    @contextmanager
    def start(self, plan: Any, *_: Any) -> Iterator[Any]:
        self.calls.append("start")
        client = SimpleNamespace(
            base_url="url",
            reset_prefix_cache=lambda: self.calls.append("reset"),
        )
        yield SimpleNamespace(plan=plan, client=client, provenance=lambda *_: {})
        self.calls.append("end")


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch, workspace: Workspace) -> Stand:
    return Stand(monkeypatch, workspace)


def test_all_parts_on_one_server(config: Config, stand: Stand) -> None:
    measure(config, "gptq", silent)
    assert stand.calls == ["questions", "start", *PARTS, "end"]


@pytest.mark.parametrize("only", [["bench"], ["evaluate"], ["bench", "fidelity"]])
def test_only(config: Config, stand: Stand, only: list[str]) -> None:
    measure(config, "gptq", silent, only)
    assert stand.calls == ["start", *(part for part in PARTS if part in only), "end"]


@pytest.mark.parametrize("noise_floor", [True, False])
def test_the_baseline_is_asked_twice(
    workspace: Workspace, stand: Stand, monkeypatch: pytest.MonkeyPatch, noise_floor: bool
) -> None:
    asked: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        _stage, "run_suites", lambda *_, out_dir, again, **__: asked.append((out_dir.name, again))
    )
    changes = {"evaluation": {"suites": ["mine"], "noise_floor": noise_floor}}
    measure(small_config(workspace, **changes), "bf16", silent, ["evaluate"])
    assert asked == [("bf16", False), *([("again", True)] if noise_floor else [])]
    # What the cache gives back is no second measurement.
    assert stand.calls == ["start", *(["reset"] if noise_floor else []), "end"]


def test_tasks_that_are_left_out_are_told_before_the_server_starts(
    config: Config, stand: Stand
) -> None:
    stand.suites = SuitePlan([], {"humaneval": {"category": "code", "reason": "no metric"}}, 512)
    measure(config, "gptq", stand.calls.append, ["evaluate"])
    told = "humaneval (code) is not measured: no metric"
    assert stand.calls == [told, "start", "evaluation", "evaluate", "end"]


def test_unknown_variant_starts_nothing(config: Config, stand: Stand) -> None:
    with pytest.raises(ConfigError, match="no variant 'gptk'") as caught:
        measure(config, "gptk", silent)
    assert caught.value.faults[0].mend == "one of: bf16, gptq, fp8, kv, gptq-mixed"
    assert stand.calls == []


def test_unsupported_variant_has_records_and_no_figure(config: Config, stand: Stand) -> None:
    stand.hardware = A100
    said: list[str] = []
    measure(config, "kv", said.append)
    assert stand.calls == []
    assert "needs compute capability 8.9" in said[0]
    workspace = config.workspace
    folder = workspace.evaluation("kv")
    for path in (
        workspace.fidelity("kv"),
        workspace.stability("kv"),
        workspace.bench("kv"),
        folder / "results.json",
    ):
        record = read_json(path, "-")
        assert set(record) == {"schema_version", "variant", "unsupported", "provenance"}
        assert record["provenance"]["mode"] == "unsupported"
    assert pd.read_parquet(folder / "samples.parquet").empty


def test_failing_part_stops_the_rest(
    config: Config, stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise EngineError("gone")

    monkeypatch.setattr(_stage, "measure_fidelity", fails)
    with pytest.raises(EngineError):
        measure(config, "gptq", silent)
    assert stand.calls == ["questions", "start"]
    assert not Path(config.workspace.bench("gptq")).exists()
