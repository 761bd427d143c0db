from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from qpipe.config import BusinessSuite, Config
from qpipe.paths import Workspace
from qpipe.records import read_json
from qpipe.serving import Client, Completion, Tokens
from qpipe.stability import measure_stability, sampled_questions
from tests.workspace_fixture import (
    ByteTokenizer,
    silent,
    small_config,
    stand_in_for_transformers,
)

ROWS = [
    {"id": f"m{index}", "category": "math", "prompt": f"{index} + 1 =", "reference": index + 1}
    | {"scorer": "numeric", "level": 1, "stop": ["."]}
    | {"tags": ["cluster:sums"] if index == 0 else []}
    for index in range(3)
] + [
    {"id": "c", "category": "math", "prompt": "Yes?", "reference": 0, "choices": ["a", "b"]}
    | {"scorer": "choice", "level": 1}
]


class Sampler(Client):
    """Right in its first answer only, and cut in its last."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def tokens(self) -> Tokens:
        count = len(self.asked)
        return Tokens(100 + 7 * count, 21 * count, 12 * count, 4 * count)

    def sample(self, prompt: list[int], max_tokens: int, count: int, **more: Any) -> Any:
        text = bytes(prompt).decode()
        self.asked.append({"prompt": text, "max_tokens": max_tokens, **more})
        right = str(int("".join(filter(str.isdigit, text.split()[0]))) + 1)
        texts = [right, *["no idea"] * (count - 1)]
        reasons = ["stop"] * (count - 1) + ["length"]
        return [Completion(text, reason) for text, reason in zip(texts, reasons, strict=True)]


@pytest.fixture
def suite(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Path:
    loaded = stand_in_for_transformers(ByteTokenizer())
    monkeypatch.setitem(sys.modules, "transformers", loaded)
    path = workspace.root / "mine.yaml"
    lines = "\n".join(json.dumps(row) for row in ROWS)
    (workspace.root / "math.jsonl").write_text(lines, encoding="utf-8")
    return path


def config(workspace: Workspace, suite: Path, chat: bool = False, **settings: Any) -> Config:
    made = small_config(workspace, stability=settings)
    mine = BusinessSuite(kind="business", files={"math": "math.jsonl"}, chat=chat, max_tokens=9)
    return Config(workspace, made.release, made.schemes, {"mine": mine}, {"mine": suite})


def sample(made: Config, client: Sampler, suite: Path) -> dict[str, Any]:
    questions = sampled_questions(made, suite)
    return measure_stability(made, "gptq", questions, client, {"mode": "native"}, silent)


def test_spread_and_degenerate_answers_of_each_question(workspace: Workspace, suite: Path) -> None:
    client = Sampler()
    made = config(workspace, suite, questions=2, samples=4)
    record = sample(made, client, suite)
    assert [each["id"] for each in record["questions"]] == ["m0", "m1"]
    assert [each["cluster"] for each in record["questions"]] == ["mine/cluster:sums", "mine/m1"]
    first = record["questions"][0]
    assert (first["score_mean"], first["score_variance"]) == (0.25, 0.25)
    assert (first["degenerate"], first["cut"], first["loop"]) == (0.25, 0.25, 0.0)
    assert client.asked[0] == {
        "prompt": "0 + 1 =",
        "max_tokens": 9,
        "temperature": 0.7,
        "stop": ["."],
    }
    assert record["exercises"] == {
        "prefill_tokens": 14,
        "cached_tokens": 42,
        "decode_tokens": 24,
        "requests": 8,
    }
    kept = read_json(workspace.stability("gptq"), "-")
    assert kept["questions"] == record["questions"]
    assert kept["provenance"] == {"mode": "native"}


def test_likelihood_questions_are_not_sampled(workspace: Workspace, suite: Path) -> None:
    made = config(workspace, suite, questions=9)
    record = sample(made, Sampler(), suite)
    assert [each["id"] for each in record["questions"]] == ["m0", "m1", "m2"]


def test_off_by_default(workspace: Workspace, suite: Path) -> None:
    client = Sampler()
    record = sample(config(workspace, suite), client, suite)
    assert record["questions"] == [] and client.asked == []
    assert workspace.stability("gptq").exists()


@pytest.mark.parametrize(("adds_bos", "chat", "begins"), [
    (False, False, "0 + 1 ="),
    (True, False, "\0" + "0 + 1 ="),
    (False, True, "\0<user>0 + 1 ="),
    (True, True, "\0<user>0 + 1 ="),
])  # fmt: skip
def test_prompts_begin_with_the_bos_of_the_tokenizers_own_template(
    workspace: Workspace,
    suite: Path,
    monkeypatch: pytest.MonkeyPatch,
    adds_bos: bool,
    chat: bool,
    begins: str,
) -> None:
    loaded = stand_in_for_transformers(ByteTokenizer(adds_bos))
    monkeypatch.setitem(sys.modules, "transformers", loaded)
    client = Sampler()
    made = config(workspace, suite, chat, questions=1, samples=2)
    sample(made, client, suite)
    assert client.asked[0]["prompt"] == begins
