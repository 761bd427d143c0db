from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from qpipe.config import LONG_CONTEXT, Config
from qpipe.errors import ConfigError, InvalidMeasurement, MissingInput
from qpipe.fidelity import held_out_texts, measure_fidelity
from qpipe.paths import Workspace
from qpipe.records import read_json
from qpipe.serving import Client, Tokens
from qpipe.serving._client import PromptLogprobs
from tests.workspace_fixture import (
    ByteTokenizer,
    silent,
    small_config,
    stand_in_for_transformers,
)

LIKELY, OTHER = np.log([0.7, 0.2]).tolist(), np.log([0.5, 0.3]).tolist()


class FakeClient(Client):
    """Gives the same two tokens everywhere, in the other order in texts that begin with ``swap``."""

    def __init__(self, ids: list[int], logprobs: list[float], swap: str = "") -> None:
        self.ids, self.values, self.swap = ids, logprobs, list(swap.encode())
        self.asked: list[int] = []
        self.decoded: list[list[int]] = []
        self.cached: list[float] | None = None
        self.texts: list[list[int]] = []

    def prompt_logprobs(self, prompt: list[int], top_k: int) -> PromptLogprobs:
        self.asked.append(len(prompt))
        self.texts.append(prompt)
        count = len(prompt) - 1
        ids = self.ids[::-1] if prompt[:1] == self.swap else self.ids
        return PromptLogprobs([ids] * count, [self.values] * count, [-1.0] * count)

    def complete(self, prompt: list[int], max_tokens: int) -> list[int]:
        return [prompt[-1]] * max_tokens

    def tokens(self) -> Tokens:
        return Tokens(sum(self.asked), 0, 0, len(self.asked))

    def decode(
        self, prompt: list[int], max_tokens: int, top_k: int
    ) -> tuple[list[int], PromptLogprobs]:
        """Reads from the cache what prefill computed, but for the first token, which is none of it."""
        self.decoded.append(prompt)
        logprobs = [[-5.0, -6.0], *[self.cached or self.values] * (max_tokens - 1)]
        return [7] * max_tokens, PromptLogprobs(
            [self.ids] * max_tokens, logprobs, [-1.0] * max_tokens
        )


BASELINE, VARIANT = FakeClient([1, 2], LIKELY), FakeClient([2, 1], OTHER)


@pytest.fixture
def config(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Config:
    """Held-out texts of two categories and a tokenizer of one token a byte."""
    loaded = stand_in_for_transformers(ByteTokenizer())
    monkeypatch.setitem(sys.modules, "transformers", loaded)
    texts(workspace, "prose", "First text.\n\nSecond, longer text.\n\n\n\nThird.")
    texts(workspace, "code", "print(1)\n\nx\n\nFirst text.")
    return small_config(
        workspace, fidelity={"max_tokens": 12, "top_k": 2, "max_texts": 3, "answers": 0}
    )


def texts(workspace: Workspace, category: str, text: str) -> None:
    path = workspace.root / "evalsets" / "heldout" / f"{category}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def measured(
    config: Config, variant: str, client: FakeClient, checkpoint: str = "hash", kv: str = "fp32"
) -> dict[str, Any]:
    texts = held_out_texts(config, variant)
    provenance = {"checkpoint_hash": checkpoint, "arithmetic": {"kv": kv}}
    return measure_fidelity(config, variant, texts, client, provenance, silent)


def test_baseline_is_stored_and_is_its_own_zero(config: Config) -> None:
    record = measured(config, "bf16", BASELINE)
    workspace = config.workspace
    assert record["self"] and record["kl_mean"] == record["kl_max"] == 0
    assert record["top1_agreement"] == 1
    assert record["perplexity"] == record["perplexity_baseline"] == pytest.approx(np.e)
    stored = pd.read_parquet(workspace.fidelity("bf16").with_suffix(".parquet"))
    # One token gives no position, and a text that two categories share counts once.
    assert sorted(stored["category"]) == ["code", "code", "prose", "prose"]
    assert max(map(len, stored["text"])) == 12
    assert not list(workspace.fidelity("bf16").parent.glob("*.partial"))


def test_variant(config: Config) -> None:
    measured(config, "bf16", BASELINE)
    record = measured(config, "gptq", VARIANT)
    wanted = 0.7 * np.log(0.7 / 0.3) + 0.2 * np.log(0.2 / 0.5) + 0.1 * np.log(0.1 / 0.2)
    assert record["kl_mean"] == pytest.approx(wanted)
    assert record["kl_ci_low"] <= record["kl_mean"] <= record["kl_ci_high"]
    assert record["top1_agreement"] == 0
    assert not record["self"]
    assert set(record["categories"]) == {"code", "prose"}
    assert sum(part["positions"] for part in record["categories"].values()) == record["positions"]
    assert read_json(config.workspace.fidelity("gptq"), "-")["kl_mean"] == record["kl_mean"]


def test_the_baseline_that_a_record_is_against(config: Config) -> None:
    assert measured(config, "bf16", BASELINE, "base-1")["baseline_checkpoint_hash"] == "base-1"
    assert measured(config, "gptq", VARIANT)["baseline_checkpoint_hash"] == "base-1"
    measured(config, "bf16", BASELINE, "base-2")
    assert measured(config, "gptq", VARIANT)["baseline_checkpoint_hash"] == "base-2"


def test_top1_interval_resamples_texts(workspace: Workspace, config: Config) -> None:
    (workspace.root / "evalsets" / "heldout" / "code.txt").unlink()
    texts(workspace, "prose", "\n\n".join(letter * 12 for letter in "abcd"))
    config = small_config(workspace, fidelity={"max_tokens": 12, "top_k": 2, "answers": 0})
    measured(config, "bf16", BASELINE)
    record = measured(config, "gptq", FakeClient([1, 2], OTHER, swap="a"))
    # One text of four disagrees in every position: as four values, not as 44 independent ones.
    assert record["top1_agreement"] == pytest.approx(0.75)
    assert record["top1_ci_low"] <= 0.5 and 0.95 < record["top1_ci_high"] <= 1.0
    assert record["categories"]["prose"]["top1_ci_low"] == record["top1_ci_low"]


def test_quantization_without_effect_is_no_result(config: Config) -> None:
    measured(config, "bf16", BASELINE)
    with pytest.raises(InvalidMeasurement, match="did not take effect"):
        measured(config, "gptq", BASELINE)
    assert not config.workspace.fidelity("gptq").exists()


def test_a_quantized_cache_that_only_decode_reads_took_effect(config: Config) -> None:
    measured(config, "bf16", BASELINE)
    client = FakeClient([1, 2], LIKELY)
    client.cached = OTHER
    record = measured(config, "kv", client, kv="fp8")
    assert record["kl_max"] == 0 and record["decode_vs_prefill"]["kl_mean"] > 0
    with pytest.raises(InvalidMeasurement, match="did not take effect"):
        measured(config, "kv", BASELINE, kv="fp8")


def test_variant_before_the_baseline(config: Config) -> None:
    with pytest.raises(MissingInput, match="qpipe measure bf16"):
        measured(config, "gptq", VARIANT)
    assert not config.workspace.fidelity("gptq").exists()


@pytest.mark.parametrize(
    "text", ["Other text.", "First text.", "First text.\n\nMore text.\n\nAnd more."]
)
def test_changed_texts(config: Config, text: str) -> None:
    measured(config, "bf16", BASELINE)
    texts(config.workspace, "prose", text)
    with pytest.raises(ConfigError, match="differ from those of the baseline's run") as caught:
        measured(config, "gptq", VARIANT)
    assert caught.value.faults[0].mend == "run `qpipe measure bf16` again"


def test_long_texts_are_all_paragraphs_in_a_row(config: Config) -> None:
    fidelity = {"max_tokens": 5, "top_k": 2, "answers": 0, "long_tokens": [20, 40], "long_texts": 2}
    config = small_config(config.workspace, fidelity=fidelity)
    found = held_out_texts(config, "bf16")
    long = found[found["category"] == LONG_CONTEXT]
    assert [len(ids) for ids in long["text"]] == [20, 20, 40, 40]
    assert len(set(long["text_hash"])) == 4
    assert bytes(long["text"].iloc[0]).startswith(b"print(1)\n\nFirst text")
    # Only the end of a long text counts: what stands far ahead of it is what is tried.
    measured(config, "bf16", BASELINE)
    record = measured(config, "gptq", VARIANT)
    assert record["categories"][LONG_CONTEXT]["positions"] == 4 * 5


def test_long_texts_take_more_than_there_is(config: Config) -> None:
    fidelity = {"max_tokens": 5, "long_tokens": [1000]}
    config = small_config(config.workspace, fidelity=fidelity)
    with pytest.raises(ConfigError, match=r"fidelity.long_tokens: .* are \d+ tokens, 1000 are"):
        held_out_texts(config, "bf16")


def test_another_judged_part_of_a_long_text(config: Config) -> None:
    settings = {"top_k": 2, "answers": 0, "long_tokens": [40], "long_texts": 1}
    short = {"max_tokens": 30, **settings}
    measured(small_config(config.workspace, fidelity=short), "bf16", BASELINE)
    other = small_config(config.workspace, fidelity={**short, "max_tokens": 31})
    with pytest.raises(ConfigError, match="differ from those of the baseline's run"):
        held_out_texts(other, "gptq")


def test_empty_held_out_files(config: Config, tmp_path: Path) -> None:
    texts(config.workspace, "empty", "\n\n \n")
    with pytest.raises(ConfigError, match=r"heldout/empty\.txt: -: there is no text"):
        measured(config, "bf16", BASELINE)
    for path in (config.workspace.root / "evalsets" / "heldout").iterdir():
        path.unlink()
    with pytest.raises(ConfigError, match=r"no \*\.txt files"):
        measured(config, "bf16", BASELINE)


class Restless(FakeClient):
    """Gives other logprobs once ``after`` texts were asked, as batches of another make-up do."""

    after = 4

    def prompt_logprobs(self, prompt: list[int], top_k: int) -> PromptLogprobs:
        self.values = LIKELY if len(self.asked) < self.after else OTHER
        return super().prompt_logprobs(prompt, top_k)


def test_noise_is_what_two_runs_of_the_baseline_differ_by(config: Config) -> None:
    client = Restless([1, 2], LIKELY)
    record = measured(config, "bf16", client)
    wanted = 0.7 * np.log(0.7 / 0.5) + 0.2 * np.log(0.2 / 0.3) + 0.1 * np.log(0.1 / 0.2)
    assert record["kl_mean"] == 0
    assert record["noise"]["kl_mean"] == pytest.approx(wanted)
    assert record["noise"]["concurrency"] != config.release.fidelity.concurrency
    assert set(record["noise"]["categories"]) == {"code", "prose"}
    # Concurrent requests may overtake each other; the order they are sent in is the reverse.
    assert sorted(client.texts[:4]) == sorted(client.texts[4:8])
    assert measured(config, "gptq", VARIANT)["noise"] is None


def test_the_baselines_own_answers(workspace: Workspace, config: Config) -> None:
    config = small_config(
        workspace, fidelity={"max_tokens": 12, "top_k": 2, "answers": 1, "answer_tokens": 3}
    )
    measured(config, "bf16", BASELINE)
    client = FakeClient([2, 1], OTHER)
    record = measured(config, "gptq", client)
    # Half of a text, then three tokens of the baseline's; only these three are judged.
    assert record["answers"]["positions"] == 3 * record["answers"]["texts"] == 6
    assert set(record["answers"]["categories"]) == {"code", "prose"}
    answers = [text for text in client.texts if text[-3:] == [text[-4]] * 3]
    assert [len(text) for text in answers] == [len("print(1)") // 2 + 3, 12 // 2 + 3]


def test_probability_of_the_texts_own_tokens(config: Config) -> None:
    measured(config, "bf16", BASELINE)
    record = measured(config, "gptq", VARIANT)
    assert record["dp_rms"] == record["dp_mean"] == record["perplexity_ln_ratio"] == 0


def test_kl_by_third_of_a_text(config: Config) -> None:
    measured(config, "bf16", BASELINE)

    class Fading(FakeClient):
        """Like the baseline at first, then not."""

        def prompt_logprobs(self, prompt: list[int], top_k: int) -> PromptLogprobs:
            found = super().prompt_logprobs(prompt, top_k)
            same = len(found.ids) // 2
            rows = [LIKELY] * same + [OTHER] * (len(found.ids) - same)
            return PromptLogprobs(found.ids, rows, found.actual)

    first, second, last = measured(config, "gptq", Fading([1, 2], OTHER))["kl_by_third"]
    assert first == 0 and 0 < second < last


def test_thirds_of_texts_too_short_for_them(workspace: Workspace, config: Config) -> None:
    config = small_config(workspace, fidelity={"max_tokens": 3, "top_k": 2, "answers": 0})
    measured(config, "bf16", BASELINE)
    first, second, last = measured(config, "gptq", VARIANT)["kl_by_third"]
    assert first == second > 0 and last is None


@pytest.mark.parametrize("variant", ["bf16", "gptq", "kv"])
def test_decode_is_held_against_prefill(config: Config, variant: str) -> None:
    measured(config, "bf16", BASELINE)
    client = FakeClient([1, 2], LIKELY if variant == "bf16" else OTHER)
    client.cached = np.log([0.6, 0.25]).tolist()
    record = measured(config, variant, client, kv="fp8" if variant == "kv" else "fp32")
    probe = record["decode_vs_prefill"]
    if variant == "gptq":  # it caches what the baseline caches
        assert probe is None and client.decoded == []
        return
    p, q = np.exp(client.cached), np.exp(client.values)
    p, q = np.append(p, 1 - p.sum()), np.append(q, 1 - q.sum())
    # The answers' first tokens, which prefill gives, are far off and do not count.
    assert probe["kl_mean"] == pytest.approx(float((p * np.log(p / q)).sum()))
    assert probe["kl_ci_low"] <= probe["kl_mean"] <= probe["kl_ci_high"]
    assert probe["texts"] == 4 and probe["positions"] == 4 * 11
    # Halves of texts of both categories; prompt and answer are asked again as one prompt.
    halves = [b"print(1)"[:4], b"First text."[:5], b"Second, longer"[:6], b"Third."[:3]]
    assert sorted(client.decoded) == sorted(list(half) for half in halves)
    assert sorted(text[:-12] for text in client.texts if text[-12:] == [7] * 12) == sorted(
        client.decoded
    )


def test_what_the_measurement_exercises(config: Config) -> None:
    record = measured(config, "bf16", FakeClient([1, 2], LIKELY))
    # Each text twice, for the noise floor; the probe does not count.
    sizes = [len(b"print(1)"), len(b"First text."), 12, len(b"Third.")]
    assert record["exercises"]["prefill_tokens"] == 2 * sum(sizes)
    assert record["exercises"]["requests"] == 2 * len(sizes)
    record = measured(config, "gptq", FakeClient([2, 1], OTHER))
    assert record["exercises"]["prefill_tokens"] == sum(sizes)


@pytest.mark.parametrize("adds_bos", [False, True])
def test_texts_begin_with_the_bos_that_the_tokenizer_gives(
    config: Config, monkeypatch: pytest.MonkeyPatch, adds_bos: bool
) -> None:
    loaded = stand_in_for_transformers(ByteTokenizer(adds_bos))
    monkeypatch.setitem(sys.modules, "transformers", loaded)
    texts(config.workspace, "code", "\0BOS of its own\n\nprint(1)")
    texts(config.workspace, "prose", "Some text.")
    client = FakeClient([1, 2], LIKELY)
    measured(config, "bf16", client)
    bos = ByteTokenizer.bos_token_id
    held_out = [text for text in client.texts if text[-1] != 7]  # not the probe's answers
    own = {bytes(text[text[0] == bos :]).decode(): text[0] == bos for text in held_out}
    assert own == {"BOS of its ": True, "print(1)": adds_bos, "Some text.": adds_bos}
    assert not any(bos in text[1:] for text in client.texts)
    texts(config.workspace, "code", "\0\0Twice")
    with pytest.raises(InvalidMeasurement, match="two BOS"):
        measured(config, "bf16", client)
