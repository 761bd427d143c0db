"""Whole texts scored by log-likelihood: lm-eval's wikitext."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from qpipe.config import Config, PublicSuite, PublicTask
from qpipe.errors import ConfigError, EngineError
from qpipe.evaluation import plan_suites
from tests.evaluation.conftest import make_config
from tests.workspace_fixture import REPO

if TYPE_CHECKING:
    from tests.evaluation.conftest import FakeEngine, Run

ARTICLES = ["= One =\n\nSome words here .\n" + "more and more words\n" * 9, "= Two =\n\nBrief .\n"]
WINDOW = 64


def make(root: Path, window: int = WINDOW, **tasks: PublicTask) -> Config:
    (root / "rows.py").write_text((REPO / "evalsets" / "public" / "rows.py").read_text())
    (root / "wiki.raw").write_text("".join(ARTICLES))
    task = PublicTask(
        category="language-modelling",
        rows="rows.py:wikitext",
        data_files="wiki.raw",
        metric="word_perplexity",
    )
    suite = PublicSuite(kind="public", tasks={"wikitext": task, **tasks})
    return make_config(root, {"p": suite}, window, data_dir=".")


@pytest.fixture
def samples(tmp_path: Path) -> Any:
    def read() -> pd.DataFrame:
        return pd.read_parquet(tmp_path / "out" / "eval" / "bf16" / "samples.parquet")

    return read


def test_the_score_is_the_log_likelihood_a_word(
    tmp_path: Path, engine: FakeEngine, run: Run, samples: Any
) -> None:
    from lm_eval.tasks.wikitext.preprocess_wikitext import wikitext_detokenizer

    lines: list[str] = []
    results = run(make(tmp_path), progress=lines.append)
    rows = samples()
    # A token a byte, each with log-likelihood -1; words are counted before detokenization.
    pages = [ARTICLES[0].rstrip("\n"), ARTICLES[1]]
    words = [len(re.split(r"\s+", page)) for page in pages]
    tokens = [len(wikitext_detokenizer({"page": page})) for page in pages]
    assert list(rows.score) == [-count / word for count, word in zip(tokens, words, strict=True)]
    assert list(rows.unit) == ["nats a word", "nats a word"]
    assert rows[["response", "finish_reason", "prompt_tokens"]].isna().all(axis=None)

    task = results["tasks"]["wikitext"]
    assert task["score"] == pytest.approx(rows.score.mean())
    assert task["value"] == pytest.approx(math.exp(sum(tokens) / sum(words)))
    assert (task["metric"], task["unit"]) == ("word_perplexity,none", "nats a word")
    assert results["categories"]["language-modelling"]["unit"] == "nats a word"
    assert " nats a word over 2 rows" in lines[0]


def test_texts_go_in_disjoint_windows_of_the_context(
    tmp_path: Path, engine: FakeEngine, run: Run
) -> None:
    run(make(tmp_path))
    sent = [body["prompt"][0] for body in engine.requests]
    assert max(map(len, sent)) == WINDOW - 1, "one token is generated"
    starts = [ids for ids in sent if ids[0] == engine.tokenizer.bos_token_id]
    assert len(starts) == len(ARTICLES), "only a text's first window begins with BOS"
    assert all(engine.tokenizer.bos_token_id not in ids[1:] for ids in sent)
    # Each later window begins with the token before its first.
    long = [ids for ids in sent if ids not in starts]
    first = max(starts, key=len)
    ends = {first[-1], *(ids[-1] for ids in long)}
    assert len(long) >= 2 and all(ids[0] in ends for ids in long)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_windows_of_a_killed_cell_are_kept(
    tmp_path: Path,
    engine: FakeEngine,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    concurrency: int,
) -> None:
    monkeypatch.setattr("qpipe.evaluation._served._ATTEMPTS", 1)
    config = make(tmp_path, window=16)
    release = config.release.model_copy(
        update={
            "evaluation": config.release.evaluation.model_copy(update={"concurrency": concurrency})
        }
    )
    config = Config(config.workspace, release, {}, config.suites, config.suite_files)
    engine.fails = lambda text: len(engine.requests) > 10
    with pytest.raises(EngineError):
        run(config)
    asked = len(engine.requests)
    engine.fails = lambda text: False
    results = run(config)
    bodies = [tuple(body["prompt"][0]) for body in engine.requests]
    windows = len(set(bodies))
    assert windows > 12
    assert len(bodies) - asked <= windows - 10 + concurrency
    assert results["tasks"]["wikitext"]["n"] == 2


def test_in_other_windows_a_text_is_another_question(
    tmp_path: Path, run: Run, samples: Any
) -> None:
    run(make(tmp_path))
    first = samples().prompt_hash
    again = run(make(tmp_path, window=WINDOW * 2))
    assert not again["tasks"]["wikitext"]["cached"]
    assert set(first).isdisjoint(samples().prompt_hash)


def test_the_shortest_context_is_the_window_of_all(tmp_path: Path, tokenizer_dir: Path) -> None:
    config = make(tmp_path, window=256)
    short = config.release.variants["some"].model_copy(
        update={"serve": config.release.serve.model_copy(update={"max_model_len": 128})}
    )
    release = config.release.model_copy(update={"variants": {"some": short}})
    config = Config(config.workspace, release, {}, config.suites, config.suite_files)
    assert plan_suites(config, "bf16", tokenizer_dir).window == 128


def test_a_category_has_one_unit(tmp_path: Path, tokenizer_dir: Path) -> None:
    (tmp_path / "test.jsonl").write_text('{"question": "1?", "answer": "#### 1"}\n')
    sums = PublicTask(category="language-modelling", num_fewshot=0, data_files="test.jsonl")
    with pytest.raises(ConfigError) as caught:
        plan_suites(make(tmp_path, gsm8k=sums), "bf16", tokenizer_dir)
    (fault,) = caught.value.faults
    assert fault.key == "tasks.gsm8k.category"
    assert "in shares" in fault.message and "'wikitext'" in fault.message
