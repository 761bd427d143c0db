from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from qpipe.compare import compare
from qpipe.config import Config
from qpipe.gate import gate
from qpipe.records import read_json
from qpipe.report import report
from qpipe.track import track
from qpipe.track._flatten import metrics_of
from tests.records_fixture import measured


@pytest.fixture(scope="module")
def tracked(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Config, dict[str, Any], Any]]:
    config = measured(tmp_path_factory.mktemp("release"))
    compare(config)
    gate(config)
    report(config)
    record = track(config)
    import mlflow

    yield config, record, mlflow.MlflowClient(tracking_uri=record["uri"])


def test_runs_nest(tracked: tuple[Config, dict[str, Any], Any]) -> None:
    config, record, client = tracked
    assert list(record["children"]) == config.release.names
    parent = client.get_run(record["run_id"])
    assert parent.info.status == "FINISHED" and parent.info.run_name == "smollm2-demo"
    assert parent.data.params["hardware.cpu"] == "Intel Xeon"
    assert parent.data.params["engine_version"] == "0.32.0"
    child = client.get_run(record["children"]["gptq"])
    assert child.data.tags["mlflow.parentRunId"] == record["run_id"]
    assert child.data.tags["verdict"] == "GO"
    assert child.data.params["scheme.weights.group_size"] == "64"
    assert child.data.params["measured.engine_version"] == "0.32.0"
    assert child.data.params["measured.serve.max_model_len"] == "2048"
    for key in ("acc/math", "delta/math", "kl_mean", "tok_s/c16", "ttft_p50_ms/c16"):
        assert key in child.data.metrics
    # Whatever bench writes of memory and knows is logged.
    memory = read_json(config.workspace.bench("gptq"), "-")["memory"]
    known = {key: value for key, value in memory.items() if value is not None}
    assert {"weights_gib", "resident_gib", "kv_capacity_tokens"} <= set(known)
    assert known.items() <= child.data.metrics.items()
    simulated = client.get_run(record["children"]["fp8"])
    assert simulated.data.tags["mode"] == "simulated"
    assert not any(key.startswith("tok_s") for key in simulated.data.metrics)


def test_artifacts(tracked: tuple[Config, dict[str, Any], Any]) -> None:
    config, record, client = tracked
    names = {item.path for item in client.list_artifacts(record["run_id"])}
    assert names == {"gate.json", "compare", "report"}
    names = {item.path for item in client.list_artifacts(record["run_id"], "report")}
    assert names == {"report/index.html", "report/report.md"}
    names = {item.path for item in client.list_artifacts(record["children"]["gptq"])}
    assert names == {"eval", "fidelity", "stability", "bench"}
    assert (config.workspace.root / "mlflow" / "mlflow.db").exists()


def test_a_rerun_adds_nothing(tracked: tuple[Config, dict[str, Any], Any]) -> None:
    config, record, client = tracked
    again = track(config)
    assert again["reused"] and again["run_id"] == record["run_id"]
    assert again["children"] == record["children"]
    experiment = client.get_experiment_by_name("qpipe")
    assert len(client.search_runs([experiment.experiment_id])) == 1 + len(config.release.names)
    assert read_json(config.workspace.track, "-")["run_id"] == record["run_id"]


def test_an_interrupted_run_failed(
    tracked: tuple[Config, dict[str, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, _, client = tracked
    gate_file = config.workspace.gate
    gate_file.write_text(gate_file.read_text() + "\n")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("qpipe.track._track.metrics_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        track(config)
    experiment = client.get_experiment_by_name("qpipe")
    runs = client.search_runs([experiment.experiment_id], "attributes.status = 'FAILED'")
    assert sorted(run.info.run_name for run in runs) == ["bf16", "smollm2-demo"]
    monkeypatch.undo()
    assert not track(config)["reused"]


def test_a_killed_run_is_closed(tracked: tuple[Config, dict[str, Any], Any]) -> None:
    config, _, client = tracked
    done = client.get_run(track(config)["run_id"])
    client.delete_run(done.info.run_id)
    tags = {"qpipe.digest": done.data.tags["qpipe.digest"]}
    killed = client.create_run(done.info.experiment_id, tags=tags).info.run_id
    assert not track(config)["reused"]
    assert client.get_run(killed).info.status == "FAILED"


def test_lengths_of_text_are_metrics() -> None:
    figures = {"score": 0.5, "delta": -0.25, "truncated_share": None, "unit": None}
    entry = {"categories": {"long-context": figures}, "lengths": {"8k": figures}}
    found = metrics_of(entry)
    assert found["acc/tokens-8k"] == 0.5 and found["delta/tokens-8k"] == -0.25
    baseline = {"lengths": {"8k": {"n": 4, "score": 0.75}}}
    assert metrics_of(baseline) == {"acc/tokens-8k": 0.75}


def test_importing_track_imports_no_mlflow() -> None:
    code = "import sys, qpipe.track; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
