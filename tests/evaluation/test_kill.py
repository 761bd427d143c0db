"""An evaluation that is killed for good, by SIGKILL, and run again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from qpipe.config import BusinessSuite, Config
from qpipe.errors import EngineError
from qpipe.evaluation import plan_suites, run_suites
from qpipe.records import read_json
from tests.evaluation.test_run import make_config, write_rows

if TYPE_CHECKING:
    from tests.evaluation.conftest import FakeEngine

REPOSITORY = Path(__file__).parents[2]
CONCURRENCY, ROWS = 4, 60
SCRIPT = """
import sys
from pathlib import Path
from tests.evaluation.test_kill import evaluate
evaluate(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]))
"""


def configured(root: Path, kind: str) -> Config:
    row: dict[str, Any] = {"scorer": "numeric", "reference": 2, "level": 1}
    if kind == "likelihood":
        row = {"scorer": "choice", "reference": 0, "choices": ["a", "b"], "level": 1}
    count = ROWS if kind == "generation" else ROWS // 2
    write_rows(root, {"math": [{**row, "prompt": f"Question {'x' * n} ="} for n in range(count)]})
    suite = BusinessSuite(kind="business", files={"math": "math.jsonl"}, chat=False, max_tokens=9)
    return make_config(root, {"mine": suite}, concurrency=CONCURRENCY)


def evaluate(root: Path, kind: str, base_url: str, tokenizer_dir: Path) -> None:
    """What the process that is killed runs."""
    config = configured(root, kind)
    run_suites(
        config,
        "bf16",
        plan_suites(config, "bf16", tokenizer_dir),
        base_url=base_url,
        model_id="m",
        tokenizer_dir=tokenizer_dir,
        checkpoint_hash="c",
        context={},
        out_dir=root / "out",
    )


def answers(root: Path) -> pd.DataFrame:
    return pd.read_parquet(root / "out" / "samples.parquet")


def tasks(root: Path) -> Any:
    return read_json(root / "out" / "results.json", "-")["tasks"]


@pytest.mark.parametrize("kind", ["generation", "likelihood"])
def test_only_what_was_in_flight_is_asked_again(
    tmp_path: Path, engine: FakeEngine, tokenizer_dir: Path, kind: str
) -> None:
    def answer(prompt: str) -> tuple[str, str]:
        return str(2 if prompt.count("x") % 3 else len(prompt)), "stop"

    engine.answer = answer
    engine.likes = lambda text: text.endswith("a") == bool(text.count("x") % 2)
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    broken.mkdir()
    whole.mkdir()
    evaluate(whole, kind, engine.base_url, tokenizer_dir)
    asked_once = [engine.text(body) for body in engine.requests]
    assert len(asked_once) == ROWS
    engine.requests.clear()

    engine.slow_s = 0.05
    command = [sys.executable, "-c", SCRIPT, broken, kind, engine.base_url, tokenizer_dir]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(command, cwd=REPOSITORY, env=env) as process:
        deadline = time.monotonic() + 120
        while len(engine.requests) < ROWS // 2 and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.kill()
    assert process.returncode == -9
    sent = len(engine.requests)
    assert ROWS // 2 <= sent < ROWS, "it was in the middle"
    assert not (broken / "out").exists()
    time.sleep(2 * engine.slow_s)

    engine.slow_s = 0.0
    evaluate(broken, kind, engine.base_url, tokenizer_dir)
    times = Counter(engine.text(body) for body in engine.requests)
    assert set(times) == set(asked_once)
    assert max(times.values()) == 2
    assert sum(count - 1 for count in times.values()) <= CONCURRENCY
    pd.testing.assert_frame_equal(answers(broken), answers(whole))
    # What the engine did is known of the answers before the kill too.
    assert tasks(broken) == tasks(whole)
    assert not list((broken / ".qpipe" / "cache" / "requests").iterdir())


@pytest.mark.parametrize("keeps", [0, 20, 6000])
def test_a_damaged_file_of_answers_is_as_good_as_none(
    tmp_path: Path,
    engine: FakeEngine,
    tokenizer_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    keeps: int,
) -> None:
    """What a kill leaves half written SQLite takes back; a full disk or another hand leaves this."""
    monkeypatch.setattr("qpipe.evaluation._served._ATTEMPTS", 1)
    engine.fails = lambda text: len(engine.requests) > ROWS // 2
    with pytest.raises(EngineError):
        evaluate(tmp_path, "generation", engine.base_url, tokenizer_dir)
    (path,) = (tmp_path / ".qpipe" / "cache" / "requests").iterdir()
    path.write_bytes(path.read_bytes()[:keeps] + b"x" * keeps)
    engine.fails = lambda text: False
    evaluate(tmp_path, "generation", engine.base_url, tokenizer_dir)
    assert len(answers(tmp_path)) == ROWS
    assert not path.exists()
