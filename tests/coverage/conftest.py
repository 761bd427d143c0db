"""A workspace with a built calibration set, questions and held-out texts that are all apart."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qpipe.calibration import build_calibration
from qpipe.config import Config, load_config
from qpipe.paths import Workspace
from tests.evaluation.conftest import tokenizer_dir
from tests.workspace_fixture import release_body, write_workspace

__all__ = ["tokenizer_dir"]

SENTENCE = "the old boat went over grey water while seven men sang about home and rain"
ENGLISH = SENTENCE.split()
HAN = "我们 今天 下午 一起 学习 数学 因为 老师 说 明天 考试 很 重要 所以 大家 都 努力"
CHINESE = HAN.split()
SUMS = "12 + 7 = 19 - 4 * 35 / 5 0 88"
NUMBERS = SUMS.split()
SIZE = {"samples": 12, "tokens": 64, "mix": "calib/mix.yaml"}


def text(words: list[str], seed: int, length: int = 60) -> str:
    joint = "" if words is CHINESE else " "
    return joint.join(random.Random(seed).choices(words, k=length))


@pytest.fixture
def build(
    workspace: Workspace, tokenizer_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Config]:
    """``build(name=words, …)``: a set of these sources; the evaluation is always the same."""
    monkeypatch.chdir(workspace.root)

    def make(extra: str = "", **sources: list[str]) -> Config:
        root = write_workspace(workspace.root, release_body(calibration=SIZE)).root
        for seed, (name, words) in enumerate(
            {"prose": ENGLISH, "chinese": CHINESE, "math": NUMBERS}.items()
        ):
            parts = [text(words, 100 * seed + index) for index in range(5)]
            (root / f"evalsets/heldout/{name}.txt").write_text("\n\n".join(parts))
        rows = [
            {
                "id": str(index),
                "category": "math",
                "prompt": text(NUMBERS, 900 + index, 16),
                "reference": index,
                "scorer": "numeric",
                "level": 1,
            }
            for index in range(6)
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (root / "evalsets/business/math.jsonl").write_text(lines)
        entries = {}
        for seed, (name, words) in enumerate(sources.items()):
            parts = [text(words, 5000 + 100 * seed + index) for index in range(12)]
            (root / f"calib/{name}.txt").write_text("\n---\n".join([*parts, extra]))
            entry = {"file": f"{name}.txt", "format": "text", "category": name, "weight": 1}
            entries[name] = entry
        (root / "calib/mix.yaml").write_text(json.dumps({"sources": entries}))
        if not workspace.model.exists():
            shutil.copytree(tokenizer_dir, workspace.model)
        config = load_config(workspace)
        use = config.release.calibration
        build_calibration(
            root / use.mix,
            workspace.model,
            workspace.calibration("mix"),
            use.samples,
            use.tokens,
            use.seed,
        )
        return config

    return make
