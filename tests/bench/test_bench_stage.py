from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from qpipe.bench import _stage, measure_bench
from qpipe.config import Config, Serve
from qpipe.errors import InvalidMeasurement
from qpipe.hardware import Gpu
from qpipe.paths import Workspace
from qpipe.records import read_json
from qpipe.schemes import Mode, mode_of
from qpipe.serving import Client, Plan, Server
from tests.workspace_fixture import AMX, AVX2, checked_in_scheme, silent, small_config, write_model

Labels = dict[str, str]


class FakeClient(Client):
    def __init__(self, labels: Labels | None) -> None:
        self.url = "http://127.0.0.1:1"
        self.labels = labels

    def metrics(self) -> dict[str, list[tuple[Labels, float]]]:
        return {} if self.labels is None else {"vllm:cache_config_info": [(self.labels, 1.0)]}


class FakeServer(Server):
    def resident_gib(self) -> float:
        return 1.5


CACHE = {"kv_cache_size_tokens": "93184", "kv_cache_max_concurrency": "45.5"}


def server(mode: Mode | None = None, labels: Labels | None = CACHE) -> Server:
    plan = Plan("gptq", mode or mode_of(None, AMX), Path("c"), "c" * 64, Path("model"), Serve(), {})
    return FakeServer(plan, FakeClient(labels), Path("log"), 1, 31.26, "0.32.0", ())


@pytest.fixture
def config(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr(_stage, "_nvml_gib", lambda: None)
    write_model(workspace, "gptq")
    bench = {"concurrency": [1, 16], "prompts_per_level": 20, "output_tokens": 8, "seed": 5}
    return small_config(workspace, bench=bench)


def level(asked: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """What the worker tells of one level that went well."""
    times = {"p50": 10.12345, "p90": 11.0, "p95": 12.0, "p99": 13.0}
    body = {
        "completed": asked["requests"],
        "failed": 0,
        "output_tok_s": 100.0,
        "output_lens": [8] * asked["requests"],
        "errors": [],
    }
    return {**asked, **body, **{name: dict(times) for name in _stage.SPEED}, **changes}


def measured(
    config: Config, monkeypatch: pytest.MonkeyPatch, running: Server | None = None, **changes: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    asked: list[dict[str, Any]] = []

    def worker(env: str, name: str, request: dict[str, Any], *_: Any) -> dict[str, Any]:
        assert (env, name) == ("serve", "bench")
        asked.append(copy.deepcopy(request))
        return {"levels": [level(one, **changes) for one in request["levels"]]}

    monkeypatch.setattr(_stage, "run_worker", worker)
    record = measure_bench(config, "gptq", running or server(), {"mode": "native"}, silent)
    return record, asked


def test_record(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    record, (request,) = measured(config, monkeypatch)
    assert request["levels"] == [
        {"concurrency": 1, "requests": 20, "seed": 5},
        {"concurrency": 16, "requests": 32, "seed": 6},
    ]
    assert request["warmup_seed"] == 7  # no level's own
    assert request["trust_remote_code"] is False
    assert request["tokenizer"] == "model"
    assert record["memory"] == {
        "weights_gib": 0.25,
        "kv_capacity_tokens": 93184,
        "kv_max_concurrency": 45.5,
        "resident_gib": 1.5,
        "nvml_gib": None,
    }
    assert record["server_start_s"] == 31.3
    kept = read_json(config.workspace.bench("gptq"), "-")
    assert kept["levels"] == record["levels"]
    assert "output_lens" not in kept["levels"][0]


@pytest.mark.parametrize(
    ("prompts", "wanted"),
    [
        (2, {"p50"}),
        (10, {"p50", "p90"}),
        (20, {"p50", "p90", "p95"}),
        (100, {"p50", "p90", "p95", "p99"}),
    ],
)
def test_percentiles_need_requests(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, prompts: int, wanted: set[str]
) -> None:
    write_model(workspace, "gptq")
    bench = {"concurrency": [1], "prompts_per_level": prompts, "output_tokens": 8}
    record, _ = measured(small_config(workspace, bench=bench), monkeypatch)
    for metric in _stage.SPEED:
        found = record["levels"][0][metric]
        assert {name for name, value in found.items() if value is not None} == wanted
        assert found["p50"] == 10.123


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"failed": 2, "completed": 18, "errors": ["too long", "reset"]}, "too long; reset"),
        ({"completed": 19}, "no reason given"),
        ({"output_lens": [8] * 19 + [3]}, "1 answers are not 8 tokens long"),
    ],
)
def test_invalid_measurements(
    config: Config, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidMeasurement, match=said) as caught:
        measured(config, monkeypatch, **changes)
    assert "concurrency 1:" in str(caught.value)
    assert caught.value.mend
    assert not config.workspace.bench("gptq").exists()


def test_simulated_has_no_speed(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = mode_of(checked_in_scheme("gptq-w4a16"), AVX2)
    record, asked = measured(config, monkeypatch, server(simulated))
    assert asked == [] and record["levels"] == []
    memory = record["memory"]
    assert memory.pop("weights_gib") == 0.25
    assert set(memory.values()) == {None}


def test_engine_without_cache_metric(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    record, _ = measured(config, monkeypatch, server(labels=None))
    assert record["memory"]["kv_capacity_tokens"] is None


def test_data_hash_follows_the_load(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(workspace, "gptq")
    hashes = {
        measured(small_config(workspace, bench={"output_tokens": 8, **more}), monkeypatch)[0]["data_hash"]
        for more in ({}, {"seed": 1}, {"input_tokens": 7})
    }  # fmt: skip
    assert len(hashes) == 3


def test_seed_of_zero(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(workspace, "gptq")
    monkeypatch.setattr(_stage, "_nvml_gib", lambda: None)
    bench = {"output_tokens": 8, "seed": 0}
    model = {"source": "path:x", "trust_remote_code": True}
    _, (request,) = measured(small_config(workspace, bench=bench, model=model), monkeypatch)
    # numpy refuses a negative seed.
    assert request["warmup_seed"] >= 0
    assert request["warmup_seed"] not in [one["seed"] for one in request["levels"]]
    assert request["trust_remote_code"] is True


@pytest.mark.parametrize(
    ("used", "wanted"), [([], None), ([None], None), ([1024, 512], 1.5), ([1024, None], 1.0)]
)
def test_memory_of_the_visible_gpus(
    monkeypatch: pytest.MonkeyPatch, used: list[int | None], wanted: float | None
) -> None:
    gpus = [Gpu("0", "GPU-a", "NVIDIA H100", 9.0, mib) for mib in used]
    monkeypatch.setattr(_stage, "visible_gpus", lambda: gpus)
    assert _stage._nvml_gib() == wanted
