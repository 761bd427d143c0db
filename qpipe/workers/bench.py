"""Serve environment: vLLM's own benchmark at several concurrencies against a running server."""

from __future__ import annotations

import contextlib
import io
import urllib.request
from typing import Any

from _protocol import progress, run
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser

PERCENTILES = "50,90,95,99"
METRICS = ("ttft", "tpot", "itl", "e2el")


def work(request: dict[str, Any]) -> dict[str, Any]:
    first = request["levels"][0]
    progress("warm-up")
    # Other prompts than any level's: a warm-up must not fill the prefix cache for what follows.
    warm = {**first, "requests": request["warmup_requests"], "seed": request["warmup_seed"]}
    _level(request, warm)
    levels = []
    for level in request["levels"]:
        urllib.request.urlopen(
            urllib.request.Request(f"{request['url']}/reset_prefix_cache", method="POST"),
            timeout=60,
        ).read()
        progress(f"concurrency {level['concurrency']}: {level['requests']} requests")
        levels.append({**level, **_level(request, level)})
    return {"levels": levels}


def _level(request: dict[str, Any], level: dict[str, Any]) -> dict[str, Any]:
    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    arguments = {
        "backend": "openai",
        "base-url": request["url"],
        "model": request["model"],
        "tokenizer": request["tokenizer"],
        "dataset-name": "random",
        "random-input-len": request["input_tokens"],
        "random-output-len": request["output_tokens"],
        "num-prompts": level["requests"],
        "max-concurrency": level["concurrency"],
        "seed": level["seed"],
        "temperature": 0,
        "percentile-metrics": ",".join(METRICS),
        "metric-percentiles": PERCENTILES,
    }
    argv = [part for key, value in arguments.items() for part in (f"--{key}", str(value))]
    argv += ["--ignore-eos", "--disable-tqdm", "--save-detailed"]
    if request["trust_remote_code"]:
        argv.append("--trust-remote-code")
    with contextlib.redirect_stdout(io.StringIO()):
        found = main(parser.parse_args(argv))
    kept = {
        "duration_s": found["duration"],
        "completed": found["completed"],
        "failed": found.get("failed", level["requests"] - found["completed"]),
        "req_s": found["request_throughput"],
        "output_tok_s": found["output_throughput"],
        "total_tok_s": found["total_token_throughput"],
        "output_lens": found["output_lens"],
        "errors": [error for error in found.get("errors", []) if error][:3],
    }
    for metric in METRICS:
        name = "e2e_ms" if metric == "e2el" else f"{metric}_ms"
        kept[name] = {
            f"p{p}": found.get(f"p{p}_{metric}_ms", found.get(f"median_{metric}_ms"))
            if p == "50"
            else found[f"p{p}_{metric}_ms"]
            for p in PERCENTILES.split(",")
        }
    return kept


if __name__ == "__main__":
    run(work)
