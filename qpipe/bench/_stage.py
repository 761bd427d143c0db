"""The bench part of ``qpipe measure``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qpipe.config import Bench, Config
from qpipe.envs import run_worker
from qpipe.errors import InvalidMeasurement
from qpipe.hardware import visible_gpus
from qpipe.records import digest, read_json, write_json
from qpipe.serving import Server

__all__ = ["measure_bench"]

# Fewer requests than this make a percentile the maximum under another name.
REQUESTS_FOR = {"p50": 1, "p90": 10, "p95": 20, "p99": 100}
SPEED = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")


def measure_bench(
    config: Config,
    variant: str,
    server: Server,
    provenance: dict[str, Any],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Write ``out/bench/<variant>.json``. Simulated variants have memory figures and no speed.

    Raises:
        EnvError: the GPUs cannot be read.
        InvalidMeasurement: requests failed or answers were shorter than asked.
    """
    settings, workspace = config.release.bench, config.workspace
    levels: list[dict[str, Any]] = []
    if server.plan.mode.mode == "native":
        request = {
            "url": server.client.url,
            "model": variant,
            "tokenizer": str(server.plan.tokenizer),
            "input_tokens": settings.input_tokens,
            "output_tokens": settings.output_tokens,
            "warmup_requests": settings.warmup_prompts,
            # No level's own: a warm-up must not fill the prefix cache for what follows.
            "warmup_seed": settings.seed + len(settings.concurrency),
            "levels": _levels(settings),
            "trust_remote_code": config.release.model.trust_remote_code,
        }
        found = run_worker("serve", "bench", request, workspace, variant, progress)
        levels = [_checked(level, settings) for level in found["levels"]]
    checkpoint = workspace.checkpoint(variant)
    manifest = read_json(checkpoint / "manifest.json", f"qpipe quantize {variant}")
    record = {
        "variant": variant,
        "levels": levels,
        "memory": _memory(server, manifest),
        "server_start_s": round(server.start_s, 1),
        "data_hash": digest(settings.model_dump()),
        "provenance": {**provenance, "seed": settings.seed},
    }
    write_json(workspace.bench(variant), record)
    return record


def _levels(settings: Bench) -> list[dict[str, int]]:
    return [
        {
            "concurrency": concurrency,
            "requests": max(settings.prompts_per_level, 2 * concurrency),
            "seed": settings.seed + index,
        }
        for index, concurrency in enumerate(settings.concurrency)
    ]


def _checked(level: dict[str, Any], settings: Bench) -> dict[str, Any]:
    """One level with percentiles only where the count allows them."""
    where = f"concurrency {level['concurrency']}"
    if level["failed"] or level["completed"] != level["requests"]:
        why = "; ".join(level["errors"]) or "no reason given"
        raise InvalidMeasurement(
            f"{where}: {level['requests'] - level['completed']} of {level['requests']} requests "
            f"failed: {why}",
            mend="see the engine's log; lower `bench.concurrency` if it was overloaded",
        )
    lengths = level.pop("output_lens")
    if set(lengths) != {settings.output_tokens}:
        short = sum(length != settings.output_tokens for length in lengths)
        raise InvalidMeasurement(
            f"{where}: {short} answers are not {settings.output_tokens} tokens long",
            mend="raise `serve.max_model_len` above input plus output tokens",
        )
    for metric in SPEED:
        level[metric] = {
            name: round(value, 3) if level["requests"] >= REQUESTS_FOR[name] else None
            for name, value in level[metric].items()
        }
    del level["errors"]
    return level


def _memory(server: Server, manifest: dict[str, Any]) -> dict[str, Any]:
    native = server.plan.mode.mode == "native"
    labels = server.client.metrics().get("vllm:cache_config_info", [({}, 0.0)])[0][0]
    capacity, concurrency = (
        labels.get("kv_cache_size_tokens"),
        labels.get("kv_cache_max_concurrency"),
    )
    return {
        "weights_gib": manifest["weights_gib"],
        # A dequantized twin takes other memory than the variant would.
        "kv_capacity_tokens": int(float(capacity)) if native and capacity else None,
        "kv_max_concurrency": float(concurrency) if native and concurrency else None,
        "resident_gib": server.resident_gib() if native else None,
        "nvml_gib": _nvml_gib() if native else None,
    }


def _nvml_gib() -> float | None:
    """Memory in use, GiB, summed over the GPUs that ``CUDA_VISIBLE_DEVICES`` leaves visible.

    Other processes on those GPUs count too. ``None`` without a GPU, or where the driver does not
    tell.
    """
    used = [gpu.used_mib for gpu in visible_gpus() if gpu.used_mib is not None]
    return round(sum(used) / 1024, 3) if used else None
