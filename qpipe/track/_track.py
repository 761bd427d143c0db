"""Writes runs through MLflow's client; nothing leaves the machine unless a server is named."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qpipe.config import BASELINE, Config
from qpipe.errors import EnvError
from qpipe.records import digest, hash_file, read_json, require, write_json
from qpipe.track._flatten import flatten, metrics_of, params_of

__all__ = ["track"]


_DIGEST = "qpipe.digest"
_PARENT = "mlflow.parentRunId"
_BATCH = 100  # MLflow takes so many parameters or tags a call, and 1000 metrics
_LONGEST_PARAM = 6000


def track(config: Config) -> dict[str, Any]:
    """Log the release; writes and returns where. A rerun with equal inputs finds the first run.

    Raises:
        MissingInput: ``compare``, ``gate`` or ``report`` did not run.
        EnvError: the tracking server cannot be used.
    """
    workspace, tracking = config.workspace, config.release.tracking
    deltas = read_json(workspace.deltas, "qpipe compare")
    verdicts = read_json(workspace.gate, "qpipe gate")["verdicts"]
    names = config.release.names
    require(deltas["variants"], names[1:], workspace.deltas, "qpipe compare")
    require(verdicts, names, workspace.gate, "qpipe gate")
    inputs = _inputs(config)
    mlflow = _mlflow()
    uri, artifacts = tracking.uri, None
    if uri is None:
        # Not under out/: DVC deletes a stage's outs before it runs, and history must stay.
        home = workspace.root / "mlflow"
        if set(str(home)) & set("?#%"):
            raise EnvError(
                f"MLflow cannot keep its database under {workspace.root}",
                mend="take a folder without '?', '#' and '%' in its path, or set 'tracking.uri'",
            )
        home.mkdir(parents=True, exist_ok=True)
        uri, artifacts = f"sqlite:///{home / 'mlflow.db'}", (home / "artifacts").as_uri()
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        runs = _log(
            _Logger(mlflow, client, workspace.out), config, deltas, verdicts, inputs, artifacts
        )
    except mlflow.exceptions.MlflowException as error:
        raise EnvError(
            f"MLflow at {uri} refuses: {error.message}",
            mend="check 'tracking.uri' in the release file and that the server runs",
        ) from error
    record = {"uri": uri, "experiment": tracking.experiment, **runs}
    write_json(workspace.track, record)
    return record


def _mlflow() -> Any:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    import mlflow

    return mlflow


def _inputs(config: Config) -> dict[str, list[Path]]:
    """Files by run; the release's own are under the empty name."""
    workspace = config.workspace
    files = {
        "": [
            workspace.gate,
            workspace.deltas,
            workspace.deltas.with_suffix(".csv"),
            workspace.report / "index.html",
            workspace.report / "report.md",
        ]
    }
    for name in config.release.names:
        files[name] = [
            workspace.evaluation(name) / "results.json",
            workspace.fidelity(name),
            workspace.stability(name),
            workspace.bench(name),
        ]
    return {name: [path for path in paths if path.exists()] for name, paths in files.items()}


def _log(
    logger: _Logger,
    config: Config,
    deltas: dict[str, Any],
    verdicts: dict[str, Any],
    inputs: dict[str, list[Path]],
    artifacts: str | None,
) -> dict[str, Any]:
    release = config.release
    content = {name: [hash_file(path) for path in paths] for name, paths in inputs.items()}
    schemes = {name: scheme.model_dump(mode="json") for name, scheme in config.schemes.items()}
    key = digest(release.model_dump(mode="json"), schemes, content)
    experiment = logger.experiment(release.tracking.experiment, artifacts)
    found = logger.finished(experiment, key)
    if found is not None:
        return {"run_id": found, "children": logger.children(experiment, found), "reused": True}
    logger.fail_killed(experiment, key)
    children: dict[str, str] = {}
    model = {"model_source": release.model.source, **_measured_on(deltas)}
    tags = {_DIGEST: key, "release": release.name}
    with logger.run(experiment, release.name, tags) as parent:
        logger.write(parent, model, {}, inputs[""])
        for name in release.names:
            entry = deltas["baseline"] if name == BASELINE else deltas["variants"][name]
            tags = {
                _PARENT: parent,
                "variant": name,
                "verdict": str(verdicts[name]["verdict"]),
                "reason": verdicts[name]["reasons"][0],
                "mode": str(entry["provenance"].get("mode")),
            }
            with logger.run(experiment, name, tags) as child:
                params = params_of(config, name, entry)
                logger.write(child, params, metrics_of(entry), inputs[name])
            children[name] = child
    return {"run_id": parent, "children": children, "reused": False}


def _measured_on(deltas: dict[str, Any]) -> dict[str, str]:
    provenance = deltas["baseline"]["provenance"]
    keys = ("engine", "engine_version", "hardware")
    return flatten({key: provenance.get(key) for key in keys})


class _Logger:
    """The few calls of MLflow's client that a release needs."""

    def __init__(self, mlflow: Any, client: Any, out: Path) -> None:
        self.entities = mlflow.entities
        self.client = client
        self.out = out

    def experiment(self, name: str, artifacts: str | None) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        return str(self.client.create_experiment(name, artifact_location=artifacts))

    def finished(self, experiment: str, key: str) -> str | None:
        """The run that logged these inputs to its end."""
        query = f"tags.`{_DIGEST}` = '{key}' and attributes.status = 'FINISHED'"
        runs = self.client.search_runs([experiment], query, max_results=1)
        return str(runs[0].info.run_id) if runs else None

    def children(self, experiment: str, parent: str) -> dict[str, str]:
        """Runs nested in ``parent``, by variant."""
        runs = self.client.search_runs([experiment], f"tags.`{_PARENT}` = '{parent}'")
        return {run.data.tags["variant"]: str(run.info.run_id) for run in reversed(runs)}

    def fail_killed(self, experiment: str, key: str) -> None:
        """A killed process leaves its runs RUNNING: close those of an earlier try."""
        query = f"tags.`{_DIGEST}` = '{key}' and attributes.status = 'RUNNING'"
        for run in self.client.search_runs([experiment], query):
            for run_id in (*self.children(experiment, run.info.run_id).values(), run.info.run_id):
                if self.client.get_run(run_id).info.status == "RUNNING":
                    self.client.set_terminated(run_id, "FAILED")

    @contextlib.contextmanager
    def run(self, experiment: str, name: str, tags: dict[str, str]) -> Iterator[str]:
        """A run that is FINISHED when the block ends and FAILED when it is left by an error."""
        run_id = str(self.client.create_run(experiment, run_name=name, tags=tags).info.run_id)
        try:
            yield run_id
        except BaseException:
            self.client.set_terminated(run_id, "FAILED")
            raise
        self.client.set_terminated(run_id, "FINISHED")

    def write(
        self, run_id: str, params: dict[str, str], metrics: dict[str, float], files: list[Path]
    ) -> None:
        """Log a run's figures in as few calls as MLflow allows, then its files by their stage."""
        now = self.client.get_run(run_id).info.start_time
        points = [self.entities.Metric(key, value, now, 0) for key, value in metrics.items()]
        self.client.log_batch(run_id, metrics=points)
        pairs = [self.entities.Param(key, value[:_LONGEST_PARAM]) for key, value in params.items()]
        for start in range(0, len(pairs), _BATCH):
            self.client.log_batch(run_id, params=pairs[start : start + _BATCH])
        for path in files:
            folder = path.relative_to(self.out).parts[:-1]
            self.client.log_artifact(run_id, str(path), folder[0] if folder else None)
