"""``qpipe measure V``: fidelity, evaluation, stability and bench on one server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from qpipe.bench import measure_bench
from qpipe.config import BASELINE, Config
from qpipe.envs import worker_hash
from qpipe.evaluation import import_lm_eval, plan_suites, run_suites
from qpipe.fidelity import held_out_texts, measure_fidelity
from qpipe.hardware import Hardware, detect
from qpipe.records import staged_dir, write_json
from qpipe.schemes import Mode, variant_mode
from qpipe.serving import plan_serving, start
from qpipe.stability import measure_stability, sampled_questions

__all__ = ["PARTS", "measure"]

PARTS = ("fidelity", "evaluate", "stability", "bench")


def measure(
    config: Config,
    variant: str,
    progress: Callable[[str], None],
    only: Sequence[str] = PARTS,
) -> None:
    """Serve ``variant`` once and write the records of the parts asked.

    A variant this machine cannot run gets records that say so, and no figure.

    Raises:
        ConfigError: no such variant, or faults in texts and questions.
        MissingInput: an earlier stage did not run.
        EngineError: the server did not start or died.
        InvalidMeasurement: a part's figures would not be valid.
    """
    hardware = detect()
    mode = variant_mode(config, variant, hardware)
    if mode.mode == "unsupported":
        _write_unsupported(config, variant, mode, hardware)
        progress(f"not measured: {mode.reason}")
        return
    plan = plan_serving(config, variant, hardware, progress)
    # Checked and loaded ahead: a night must not end at the last suite's missing rows.
    texts, suites, questions = None, None, None
    if "fidelity" in only:
        texts = held_out_texts(config, variant)
    if "stability" in only:
        questions = sampled_questions(config, plan.tokenizer)
    if "evaluate" in only:
        suites = plan_suites(config, variant, plan.tokenizer)
        for task, why in suites.not_measured.items():
            progress(f"{task} ({why['category']}) is not measured: {why['reason']}")
        # The engine's start takes one core: lm-eval is imported on another meanwhile.
        threading.Thread(target=import_lm_eval, daemon=True).start()
    with start(plan, config.workspace, progress) as server:
        provenance = server.provenance(hardware)
        if texts is not None:
            measure_fidelity(config, variant, texts, server.client, provenance, progress)
        if suites is not None:
            folder = config.workspace.evaluation(variant)
            runs = [(folder, False)]
            if variant == BASELINE and config.release.evaluation.noise_floor:
                runs.append((folder / "again", True))
            for out_dir, again in runs:
                progress("evaluation again" if again else "evaluation")
                if again:
                    # Prompts that are read from the cache would hide the noise of computing them.
                    server.client.reset_prefix_cache()
                run_suites(
                    config,
                    variant,
                    suites,
                    base_url=server.client.base_url,
                    model_id=variant,
                    tokenizer_dir=plan.tokenizer,
                    checkpoint_hash=plan.checkpoint_hash,
                    context={
                        **provenance,
                        "seed": config.release.evaluation.seed,
                        "simulator": _simulator(mode),
                    },
                    out_dir=out_dir,
                    again=again,
                    progress=progress,
                )
        if questions is not None:
            measure_stability(config, variant, questions, server.client, provenance, progress)
        if "bench" in only:
            measure_bench(config, variant, server, provenance, progress)


def _simulator(mode: Mode) -> str | None:
    """Hash of the code that stands in for missing kernels: another code, another result."""
    return worker_hash("simulate", "simulation") if mode.mode == "simulated" else None


def _write_unsupported(config: Config, variant: str, mode: Mode, hardware: Hardware) -> None:
    workspace = config.workspace
    record: dict[str, Any] = {
        "variant": variant,
        "unsupported": mode.reason,
        "provenance": {**mode.record(), "hardware": hardware.record()},
    }
    write_json(workspace.fidelity(variant), record)
    write_json(workspace.stability(variant), record)
    write_json(workspace.bench(variant), record)
    with staged_dir(workspace.evaluation(variant)) as staged:
        write_json(staged / "results.json", record)
        pd.DataFrame({"task": pd.Series(dtype=str)}).to_parquet(staged / "samples.parquet")
