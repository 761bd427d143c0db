"""``qpipe measure`` killed by SIGKILL in the middle of an evaluation, with a real vLLM server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import psutil
import pytest

from qpipe.processes import GRACE_S
from tests.engine.conftest import ENVS

pytestmark = pytest.mark.engine

ROWS, CONCURRENCY = 120, 4
SUITE = "kind: business\nfiles: {math: many.jsonl}\nchat: false\nmax_tokens: 24\n"
MEASURE = (sys.executable, "-m", "qpipe", "measure", "bf16", "--only", "evaluate")


@pytest.fixture
def killable(workspace: Path, tmp_path: Path) -> Path:
    """A workspace of its own with many questions, of which the baseline is asked once."""
    root = tmp_path / "workspace"
    for name in ("configs", "evalsets", "calib", "tiny"):
        shutil.copytree(workspace / name, root / name)
    release = root / "configs" / "release.yaml"
    asked = f"evaluation: {{suites: [tiny], concurrency: {CONCURRENCY}, noise_floor: false}}"
    lines = release.read_text(encoding="utf-8").splitlines()
    found = [asked if line.startswith("evaluation:") else line for line in lines]
    release.write_text("\n".join(found), encoding="utf-8")
    business = root / "evalsets" / "business"
    (business / "tiny.yaml").write_text(SUITE, encoding="utf-8")
    rows = [
        {"id": f"m{i}", "category": "math", "prompt": f"{i} and {'x' * (i % 50)}", "reference": i}
        | {"scorer": "numeric", "level": 1}
        for i in range(ROWS)
    ]
    (business / "many.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return root


def served(log: Path) -> int:
    """Requests that the engine has answered."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return text.count('"POST /v1/completions HTTP/1.1" 200')


def until(happened: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_answers_are_kept_and_no_engine_is_left(killable: Path) -> None:
    log = killable / ".qpipe" / "logs" / "serve-bf16.log"
    env = {**os.environ, "QPIPE_ENVS": str(ENVS)}
    subprocess.run([*MEASURE[:3], "model"], cwd=killable, env=env, check=True, capture_output=True)
    process = subprocess.Popen(MEASURE, cwd=killable, env=env)
    try:
        until(lambda: served(log) >= ROWS // 3 or process.poll() is not None, 240)
        family = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.kill()
        process.wait()
    assert len(family) >= 2, "the engine and what watches it"
    _, left = psutil.wait_procs(family, timeout=2 * GRACE_S)
    assert not left
    first = served(log)
    assert ROWS // 3 <= first < ROWS, "it was in the middle"

    subprocess.run(MEASURE, cwd=killable, env=env, check=True, capture_output=True)
    second = served(log)
    # What was in flight was begun twice, and not counted where the engine ended before.
    assert 0 <= first + second - ROWS <= CONCURRENCY
    assert second < ROWS
    samples = pd.read_parquet(killable / "out" / "eval" / "bf16" / "samples.parquet")
    assert len(samples) == ROWS
