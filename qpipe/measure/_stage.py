"""``qpipe measure V``: fidelity, evaluation and bench on one server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from qpipe.bench import measure_bench
from qpipe.config import Config
from qpipe.errors import ConfigError, EngineError, Fault
from qpipe.evaluation import run_suites
from qpipe.fidelity import measure_fidelity
from qpipe.hardware import Hardware, detect
from qpipe.records import read_json, staged_dir, write_json
from qpipe.schemes import mode_of
from qpipe.serving import Server, plan_serving, start

__all__ = ["PARTS", "measure"]

PARTS = ("fidelity", "evaluate", "bench")


def measure(
    config: Config,
    variant: str,
    progress: Callable[[str], None],
    only: Sequence[str] = PARTS,
) -> None:
    """Serve ``variant`` once and write the records of the parts asked.

    A variant this machine cannot run gets records that say so, and no figure.

    Raises:
        ConfigError: no such variant.
        EngineError: the server did not start or died.
        InvalidMeasurement: a part's figures would not be valid.
    """
    if variant not in config.release.names:
        known = ", ".join(config.release.names)
        message = f"there is no variant '{variant}'"
        raise ConfigError([Fault("configs/release.yaml", "variants", message, f"one of: {known}")])
    hardware = detect()
    mode = mode_of(config.scheme_of(variant), hardware)
    if mode.mode == "unsupported":
        _write_unsupported(config, variant, mode.reason, hardware)
        progress(f"not measured: {mode.reason}")
        return
    plan = plan_serving(config, variant, hardware, progress)
    with start(plan, config.workspace, progress) as server:
        _check_extension(server)
        provenance = server.provenance(hardware, config.release.evaluation.seed)
        if "fidelity" in only:
            measure_fidelity(config, variant, server.client, provenance, progress)
        if "evaluate" in only:
            progress("evaluation")
            run_suites(
                config,
                variant,
                base_url=server.client.base_url,
                model_id=variant,
                tokenizer_dir=plan.tokenizer,
                checkpoint_hash=plan.checkpoint_hash,
                context=provenance,
                out_dir=config.workspace.evaluation(variant),
                on_cell=progress,
            )
        if "bench" in only:
            measure_bench(config, variant, server, provenance, progress)


def _check_extension(server: Server) -> None:
    """A simulation that did not load would be served around in silence."""
    if server.plan.extension is None:
        return
    server.client.complete([0], 1)
    (calls,) = server.client.call_workers("qpipe_kv_simulation")
    layers = read_json(server.plan.tokenizer / "manifest.json", "qpipe model")["config"]
    if len(calls) != layers["num_hidden_layers"]:
        raise EngineError(
            f"keys and values were rounded in {len(calls)} of {layers['num_hidden_layers']} layers",
            mend="the engine's version does not fit the simulation; see its log",
        )


def _write_unsupported(config: Config, variant: str, reason: str, hardware: Hardware) -> None:
    workspace = config.workspace
    mode = mode_of(config.scheme_of(variant), hardware)
    provenance = {**mode.record(), "hardware": hardware.record()}
    record: dict[str, Any] = {"variant": variant, "unsupported": reason, "provenance": provenance}
    write_json(workspace.fidelity(variant), record)
    write_json(workspace.bench(variant), record)
    with staged_dir(workspace.evaluation(variant)) as staged:
        write_json(staged / "results.json", record)
        pd.DataFrame({"task": pd.Series(dtype=str)}).to_parquet(staged / "samples.parquet")
