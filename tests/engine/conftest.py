"""A workspace around a tiny model, with the real environments."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ENVS = Path(os.environ.get("QPIPE_ENVS", REPOSITORY / ".qpipe" / "envs"))
RELEASE = """\
name: tiny
model: {source: "path:tiny"}
calibration: {mix: calib/mix.yaml, samples: 8, tokens: 64}
serve: {max_model_len: 512, max_num_seqs: 8, kv_cache_gib: 1}
variants:
  w8a8: {scheme: smoothquant-w8a8}
  w4a16: {scheme: gptq-w4a16}
  kv8: {scheme: kv-fp8}
  fp8: {scheme: fp8-dynamic}
  kv4: {scheme: kv-int4}
sensitivity:
  w4a16: {samples: 4, tokens: 32}
fallback:
  w4a16-mixed: {source: w4a16, restore_units: 4}
fidelity: {texts: evalsets/heldout, top_k: 32, max_tokens: 64, max_texts: 2, concurrency: 2}
evaluation: {suites: [tiny], concurrency: 4}
stability: {questions: 2, samples: 2}
bench: {input_tokens: 16, output_tokens: 8, concurrency: [1, 2], prompts_per_level: 4, warmup_prompts: 2}
gate: {kl_mean_max: 0.5, accuracy_margin: 0.5, accuracy_decides: false, certify_simulated: true}
tracking: {experiment: tiny}
"""
MIX = "sources:\n  prose: {file: prose.txt, format: text, category: prose, weight: 1.0}\n"
SUITE = (
    "kind: business\nfiles: {math: math.jsonl, yesno: yesno.jsonl}\nchat: false\nmax_tokens: 4\n"
)


def make_tiny(folder: Path) -> None:
    """A two-layer model with a byte tokenizer."""
    folder.mkdir(parents=True)
    request = folder.with_suffix(".json")
    request.write_text(json.dumps({"output": str(folder), "hidden": 128, "head": 32}))
    worker = REPOSITORY / "qpipe" / "workers" / "tiny.py"
    command = [ENVS / "quantize" / "bin" / "python", worker, request, folder.with_suffix(".done")]
    subprocess.run(command, check=True, capture_output=True)


Qpipe = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release of a model made on the spot."""
    root = tmp_path_factory.mktemp("workspace")
    shutil.copytree(REPOSITORY / "configs", root / "configs")
    (root / "configs" / "release.yaml").write_text(RELEASE, encoding="utf-8")
    for name in ("calib", "evalsets/business", "evalsets/heldout"):
        (root / name).mkdir(parents=True)
    (root / "calib" / "mix.yaml").write_text(MIX, encoding="utf-8")
    prose = "\n---\n".join(f"Line {i}: the quick fox number {i * 7} jumps over." for i in range(60))
    (root / "calib" / "prose.txt").write_text(prose, encoding="utf-8")
    held_out = "\n\n".join(f"A lazy dog, {i * 13}, sleeps under tree {i}." for i in range(4))
    (root / "evalsets" / "heldout" / "prose.txt").write_text(held_out, encoding="utf-8")
    business = root / "evalsets" / "business"
    (business / "tiny.yaml").write_text(SUITE, encoding="utf-8")
    math = [
        {"id": f"m{i}", "category": "math", "prompt": f"{i}+1=", "reference": i + 1}
        | {"scorer": "numeric", "tags": [], "level": 1}
        for i in range(4)
    ]
    yesno = [
        {"id": f"y{i}", "category": "yesno", "prompt": f"Is {i} odd?", "reference": "yes"}
        | {"scorer": "choice", "choices": ["yes", "no"], "tags": [], "level": 1}
        for i in range(4)
    ]
    for name, rows in (("math", math), ("yesno", yesno)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (business / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    make_tiny(root / "tiny")
    return root


@pytest.fixture(scope="session")
def qpipe(workspace: Path) -> Qpipe:
    """Runs the command line in a workspace; fails the test unless it exits with ``code``."""

    def run(
        *arguments: str, code: int = 0, folder: Path = workspace
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "qpipe", *arguments],
            cwd=folder,
            env={**os.environ, "QPIPE_ENVS": str(ENVS)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.stdout}\n{done.stderr}"
        return done

    return run
