"""The fields of fidelity records that ``compare`` and ``gate`` judge by."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qpipe.config import Config
from qpipe.fidelity import measure_fidelity
from qpipe.paths import Workspace
from qpipe.serving import Client
from qpipe.serving._client import PromptLogprobs
from tests.workspace_fixture import silent, small_config


class Answers(Client):
    """Gives the same two tokens everywhere, in the other order in texts that begin with ``swap``."""

    def __init__(self, probability: float, swap: int | None = None) -> None:
        self.values, self.swap = np.log([probability, 0.1]).tolist(), swap

    def prompt_logprobs(self, prompt: list[int], top_k: int) -> PromptLogprobs:
        count = len(prompt) - 1
        ids = [2, 1] if prompt[0] == self.swap else [1, 2]
        return PromptLogprobs([ids] * count, [self.values] * count, [-1.0] * count)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """Four held-out texts of twenty tokens, one token a byte."""

    def tokenizer(text: str) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode())}

    auto = SimpleNamespace(from_pretrained=lambda *_, **__: tokenizer)
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoTokenizer=auto))
    path = tmp_path / "evalsets" / "heldout" / "prose.txt"
    path.parent.mkdir(parents=True)
    path.write_text("\n\n".join(letter * 20 for letter in "abcd"))
    return small_config(Workspace(tmp_path), fidelity={"max_tokens": 20, "top_k": 2})


def measured(config: Config, variant: str, client: Client, checkpoint: str) -> dict[str, Any]:
    return measure_fidelity(config, variant, client, {"checkpoint_hash": checkpoint}, silent)


def test_the_baseline_that_a_record_is_against(config: Config) -> None:
    first = measured(config, "bf16", Answers(0.7), "base-1")
    assert first["baseline_checkpoint_hash"] == "base-1"
    assert measured(config, "gptq", Answers(0.6), "q")["baseline_checkpoint_hash"] == "base-1"
    measured(config, "bf16", Answers(0.8), "base-2")
    assert measured(config, "gptq", Answers(0.6), "q")["baseline_checkpoint_hash"] == "base-2"


def test_top1_interval_resamples_texts(config: Config) -> None:
    measured(config, "bf16", Answers(0.7), "base")
    record = measured(config, "gptq", Answers(0.6, swap=ord("a")), "q")
    # One text of four disagrees in every position: as four values, not as 76 independent ones.
    assert record["top1_agreement"] == pytest.approx(0.75)
    assert record["top1_ci_low"] <= 0.5 and record["top1_ci_high"] == 1.0
    assert record["categories"]["prose"]["top1_ci_low"] == record["top1_ci_low"]
