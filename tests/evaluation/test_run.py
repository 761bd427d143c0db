from __future__ import annotations

import json
import math
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from qpipe.config import BusinessSuite, Config, PublicSuite, PublicTask
from qpipe.errors import ConfigError, EngineError, EnvError, InvalidMeasurement
from qpipe.evaluation import Bos
from qpipe.evaluation._sandbox import require_sandbox
from qpipe.records import read_json
from tests.evaluation.conftest import TEMPLATE, make_config, write_tokenizer

if TYPE_CHECKING:
    from tests.evaluation.conftest import FakeEngine, Run

ROWS: dict[str, list[dict[str, Any]]] = {
    "math": [
        {"prompt": "1 + 1 =", "reference": 2, "scorer": "numeric", "level": 1, "stop": ["\n"]},
        {"prompt": "9 - 5 =", "reference": 4, "scorer": "numeric", "level": 2, "max_tokens": 5},
    ],
    "sort": [
        {"prompt": "So bad!", "reference": "bad", "scorer": "choice", "choices": ["good", "bad"], "level": 1},
        {"prompt": "Capital?", "reference": "Oslo", "scorer": "contains", "level": 1},
    ],
}  # fmt: skip

# Templates that write BOS twice, and never.
TWICE, NONE = "{{ bos_token }}" + TEMPLATE, TEMPLATE.removeprefix("{{ bos_token }}")


@pytest.fixture
def run(run: Run, engine: FakeEngine) -> Run:
    engine.answer = lambda prompt: (" 2", "stop") if "+" in prompt else (" no 5 and on", "length")
    engine.likes = lambda text: text.endswith("bad")
    return run


def write_rows(root: Path, rows: dict[str, list[dict[str, Any]]]) -> None:
    for category, group in rows.items():
        lines = [
            json.dumps({"id": f"{category}-{number}", "category": category, **row})
            for number, row in enumerate(group)
        ]
        (root / f"{category}.jsonl").write_text("\n".join(lines))


def business(chat: bool) -> BusinessSuite:
    files = {category: f"{category}.jsonl" for category in ROWS}
    return BusinessSuite(kind="business", files=files, chat=chat, max_tokens=9)


@pytest.mark.parametrize("chat", [False, True])
def test_business_suite(tmp_path: Path, engine: FakeEngine, run: Run, chat: bool) -> None:
    write_rows(tmp_path, ROWS)
    lines: list[str] = []
    results = run(make_config(tmp_path, {"mine": business(chat)}), progress=lines.append)

    out = tmp_path / "out" / "eval" / "bf16"
    assert read_json(out / "results.json", "x") == results
    part = {"n": 2, "score": 0.5, "unit": None, "empty": 0}
    assert results["categories"]["math"] == {**part, "truncated_share": 0.5}
    assert results["categories"]["sort"] == {**part, "truncated_share": 1.0}
    task = results["tasks"]["mine-math"]
    assert (task["suite"], task["category"], task["n"], task["score"]) == ("mine", "math", 2, 0.5)
    assert not task["cached"] and results["seconds"] > 0 and len(task["data_hash"]) == 64
    # By what the engine says with each answer: two answers; then one, and two choices whose likelihood is prefill.
    frame = len("<s><user>\n<assistant>") - 2 if chat else 1
    math, sort = (results["tasks"][f"mine-{name}"]["exercises"] for name in ("math", "sort"))
    assert math == {
        "prefill_tokens": 2 * frame + len("1 + 1 =") + len("9 - 5 =") - 2,
        "cached_tokens": 2,
        "decode_tokens": len(" 2") + len(" no 5 and on") - 2,
        "requests": 2,
    }
    assert sort["decode_tokens"] == len(" no 5 and on") - 1 and sort["requests"] == 3
    assert [line.split(":")[0] for line in lines] == ["mine-math", "mine-sort"]
    assert len(engine.requests) == 5

    samples = pd.read_parquet(out / "samples.parquet").set_index("doc_id")
    assert list(samples.index) == ["math-0", "math-1", "sort-0", "sort-1"]
    assert list(samples.score) == [1, 0, 1, 0]
    assert list(samples.level) == [1, 2, 1, 1]
    assert samples.response["math-0"] == " 2"
    assert samples.response["sort-0"] == "bad"
    assert list(samples.finish_reason.fillna("-")) == ["stop", "length", "-", "length"]
    assert samples.completion_tokens["math-0"] == 2
    prefix, suffix = ("<user>", "\n<assistant>") if chat else ("", "")
    assert samples.prompt_tokens["math-0"] == 1 + len(f"{prefix}1 + 1 ={suffix}")
    assert pd.isna(samples.completion_tokens["sort-0"])
    assert samples[["doc_hash", "prompt_hash", "target_hash"]].notna().all(axis=None)

    generated = {
        engine.tokenizer.decode(body["prompt"][0]): body
        for body in engine.requests
        if not body.get("echo")
    }
    first = generated[f"<s>{prefix}1 + 1 ={suffix}"]  # one BOS, with and without a template
    assert (first["max_tokens"], first["stop"], first["temperature"]) == (9, ["\n"], 0)
    assert generated[f"<s>{prefix}9 - 5 ={suffix}"]["max_tokens"] == 5
    echoed = [engine.tokenizer.decode(b["prompt"][0]) for b in engine.requests if b.get("echo")]
    space = "" if chat else " "
    assert sorted(echoed) == [f"<s>{prefix}So bad!{suffix}{space}{c}" for c in ("bad", "good")]


def test_cells_are_kept_by_content(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    write_rows(tmp_path, ROWS)
    config = make_config(tmp_path, {"mine": business(False)})
    first = run(config)
    count = len(engine.requests)
    again = run(config)
    assert len(engine.requests) == count
    assert [task["cached"] for task in again["tasks"].values()] == [True, True]
    assert again["categories"] == first["categories"]
    for task in first["tasks"]:
        assert again["tasks"][task]["exercises"] == first["tasks"][task]["exercises"]

    changed = {**ROWS, "math": [*ROWS["math"], {**ROWS["math"][0], "prompt": "3 + 1 ="}]}
    write_rows(tmp_path, changed)
    third = run(config)
    assert [task["cached"] for task in third["tasks"].values()] == [False, True]
    assert third["tasks"]["mine-math"]["n"] == 3

    for memory_gib, cached in ((16.0, False), (16.1, True)):
        context = {"hardware": {"cpu": "a", "memory_gib": memory_gib}}
        kept = [task["cached"] for task in run(config, context=context)["tasks"].values()]
        assert kept == [cached, cached]
    limited = make_config(tmp_path, {"mine": business(False)}, limit=1)
    assert {task["n"] for task in run(limited)["tasks"].values()} == {1}


CONTEXT = {"engine": "fake", "engine_version": "1", "serve": {"dtype": "bfloat16", "args": {}}}
CHAT = BusinessSuite(kind="business", files={"math": "math.jsonl"}, chat=True, max_tokens=9)
RUN = "qpipe.evaluation._run"

# What a result depends on → how to change it: in the tokenizer's folder, in qpipe, or by arguments.
CHANGES: dict[str, Callable[[Path, pytest.MonkeyPatch], Any]] = {
    "checkpoint": lambda folder, patch: {"checkpoint": "c1"},
    "engine": lambda folder, patch: {"context": {**CONTEXT, "engine_version": "2"}},
    "flags": lambda folder, patch: {"context": {**CONTEXT, "serve": {"args": {"seed": 1}}}},
    "machine": lambda folder, patch: {"context": {**CONTEXT, "hardware": {"cpu": "other"}}},
    "seed": lambda folder, patch: {"seed": 7},
    "length": lambda folder, patch: {"suite": CHAT.model_copy(update={"max_tokens": 8})},
    "tokenizer": lambda folder, patch: (folder / "vocab.json").write_text("{}"),
    "template": lambda folder, patch: (folder / "chat_template.jinja").write_text(NONE),
    "defaults": lambda folder, patch: (folder / "generation_config.json").write_text("{}"),
    "lm-eval": lambda folder, patch: patch.setattr(f"{RUN}.version", lambda _: "0.0.1"),
    "code": lambda folder, patch: patch.setattr(f"{RUN}.__file__", str(folder / "run.py")),
}


@pytest.mark.parametrize(
    ("what", "killed"),
    [*((what, False) for what in CHANGES), ("checkpoint", True), ("flags", True)],
)
def test_what_another_result_may_come_from_is_asked_again(
    tmp_path: Path,
    engine: FakeEngine,
    run: Run,
    tokenizer_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    killed: bool,
) -> None:
    """Neither whole cells nor the answers of one that was killed are taken for another's."""
    monkeypatch.setattr("qpipe.evaluation._served._ATTEMPTS", 1)
    write_rows(tmp_path, {"math": ROWS["math"]})
    folder = Path(shutil.copytree(tokenizer_dir, tmp_path / "tokenizer"))

    def asked(suite: BusinessSuite = CHAT, seed: int = 0, **more: Any) -> int:
        before, settings = len(engine.requests), {"context": CONTEXT, "tokenizer_dir": folder}
        run(make_config(tmp_path, {"mine": suite}, seed=seed), **{**settings, **more})
        return len(engine.requests) - before

    if killed:
        engine.fails = lambda text: "9 - 5" in text
        with pytest.raises(EngineError):
            asked()
        engine.fails = lambda text: False
    else:
        assert asked() == 2
    changed = CHANGES[what](folder, monkeypatch)
    more = changed if isinstance(changed, dict) else {}
    assert asked(**more) == 2
    assert asked(**more) == 0


def test_a_second_run_is_another_measurement(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    write_rows(tmp_path, ROWS)
    config = make_config(tmp_path, {"mine": business(False)})
    first, count = run(config), len(engine.requests)
    again = run(config, again=True)
    assert len(engine.requests) == 2 * count
    assert list(again["tasks"]) == list(first["tasks"])[::-1]
    assert not any(task["cached"] for task in again["tasks"].values())


MATH = BusinessSuite(kind="business", files={"math": "math.jsonl"}, chat=False, max_tokens=9)


@pytest.mark.parametrize("kind", ["generated", "likelihood"])
def test_a_second_run_asks_in_another_order(
    tmp_path: Path, engine: FakeEngine, run: Run, kind: str
) -> None:
    row: dict[str, Any] = {"scorer": "numeric", "reference": 2, "level": 1}
    if kind == "likelihood":
        row = {"scorer": "choice", "reference": 0, "choices": ["aa", "bb"], "level": 1}
    write_rows(tmp_path, {"math": [{**row, "prompt": "x" * (n + 1) + " ="} for n in range(12)]})
    config = make_config(tmp_path, {"mine": MATH})
    run(config)
    first, engine.requests[:] = [len(body["prompt"][0]) for body in engine.requests], []
    run(config, again=True)
    again = [len(body["prompt"][0]) for body in engine.requests]
    assert sorted(first) == sorted(again)
    # Requests in flight may overtake each other.
    assert first[0] > max(first[-4:]) and again[0] < min(again[-4:])


def test_questions_of_all_cells_and_settings_are_in_flight_together(
    tmp_path: Path, engine: FakeEngine, run: Run
) -> None:
    row = {"scorer": "numeric", "reference": 2, "level": 1}
    rows = [{**row, "prompt": f"{n} =", "max_tokens": n + 1} for n in range(4)]
    write_rows(tmp_path, {"math": rows[:2], "sort": rows[2:]})
    together = threading.Barrier(4, timeout=10)

    def answer(prompt: str) -> tuple[str, str]:
        together.wait()
        return f" {prompt[0]}", "stop"

    engine.answer = answer
    run(make_config(tmp_path, {"mine": business(False)}))
    samples = pd.read_parquet(tmp_path / "out" / "eval" / "bf16" / "samples.parquet")
    assert samples["response"].to_list() == [" 0", " 1", " 2", " 3"]
    assert samples["doc_id"].to_list() == ["math-0", "math-1", "sort-0", "sort-1"]


def test_equal_questions_are_asked_once(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    row = {"scorer": "numeric", "reference": 2, "level": 1, "prompt": "1 + 1 ="}
    write_rows(tmp_path, {"math": [row, {**row, "reference": 3}], "sort": [row]})
    results = run(make_config(tmp_path, {"mine": business(False)}))
    assert len(engine.requests) == 1
    assert {name: each["score"] for name, each in results["tasks"].items()} == {
        "mine-math": 0.5,
        "mine-sort": 1.0,
    }
    assert results["tasks"]["mine-math"]["exercises"]["requests"] == 1


def test_two_tasks_of_one_name_are_refused(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    row = {"scorer": "numeric", "reference": 2, "level": 1, "prompt": "1 + 1 ="}
    write_rows(tmp_path, {"b-c": [row], "c": [row]})
    suites = {
        "a": BusinessSuite(kind="business", files={"b-c": "b-c.jsonl"}, chat=False),
        "a-b": BusinessSuite(kind="business", files={"c": "c.jsonl"}, chat=False),
    }
    with pytest.raises(ConfigError, match="the suite 'a' has a task of the name 'a-b-c' too"):
        run(make_config(tmp_path, suites))
    assert not engine.requests


def test_answers_are_counted_while_they_come(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{RUN}._TELL_S", 0)
    write_rows(tmp_path, ROWS)
    lines: list[str] = []
    run(make_config(tmp_path, {"mine": business(False)}), progress=lines.append)
    assert lines[:3] == [f"{count} of 3 answers" for count in (1, 2, 3)]


def test_tags_and_clusters_are_kept_a_question(tmp_path: Path, run: Run) -> None:
    tagged = {**ROWS["math"][0], "tags": ["tokens:1k", "cluster:sums"]}
    write_rows(tmp_path, {**ROWS, "math": [tagged, ROWS["math"][1]]})
    run(make_config(tmp_path, {"mine": business(False)}))
    samples = pd.read_parquet(tmp_path / "out" / "eval" / "bf16" / "samples.parquet")
    samples = samples.set_index("doc_id")
    assert samples.tags["math-0"] == "tokens:1k,cluster:sums"
    assert samples.cluster["math-0"] == "cluster:sums"
    assert pd.isna(samples.cluster["math-1"])


def test_fields_of_json_answers(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    row = {"prompt": "Who?", "scorer": "json_fields", "level": 1}
    rows = [{**row, "reference": {"name": "Ada", "age": 36}}, ROWS["math"][0]]
    write_rows(tmp_path, {"math": rows})
    engine.answer = lambda prompt: ('{"name": "Ada", "town": "Oslo"}', "stop")
    results = run(make_config(tmp_path, {"mine": MATH}))
    fields = results["tasks"]["mine-math"]["fields"]
    assert fields["name"] == {"wanted": 1, "precision": 1.0, "recall": 1.0, "f1": 1.0}
    assert fields["age"] == {"wanted": 1, "precision": None, "recall": 0.0, "f1": 0.0}
    assert fields["town"]["precision"] == 0.0 and fields["town"]["f1"] is None


@pytest.mark.parametrize("kind", ["generated", "likelihood"])
def test_what_does_not_fit_the_context_is_not_cut(tmp_path: Path, run: Run, kind: str) -> None:
    row: dict[str, Any] = {"scorer": "numeric", "reference": 2, "level": 1, "max_tokens": 5}
    if kind == "likelihood":
        row = {"scorer": "choice", "reference": 0, "choices": ["aaaa", "bb"], "level": 1}
    # 58 letters, BOS, and five tokens of an answer: as many as are asked for or scored.
    write_rows(tmp_path, {"math": [{**row, "prompt": "x" * 58}]})
    run(make_config(tmp_path, {"mine": MATH}, max_model_len=65))
    with pytest.raises(InvalidMeasurement, match=r"'mine-math': .* longer than the context of 63"):
        run(make_config(tmp_path, {"mine": MATH}, max_model_len=63), checkpoint="c1")


def test_a_suite_names_the_tag_of_dependent_questions(tmp_path: Path, run: Run) -> None:
    tags = ["cluster:x", "template:sums"]
    write_rows(tmp_path, {"math": [{**ROWS["math"][0], "tags": tags}]})
    run(make_config(tmp_path, {"mine": MATH}))
    by_template = MATH.model_copy(update={"cluster_by": "template"})
    results = run(make_config(tmp_path, {"mine": by_template}))
    assert not results["tasks"]["mine-math"]["cached"]
    samples = pd.read_parquet(tmp_path / "out" / "eval" / "bf16" / "samples.parquet")
    assert samples["cluster"].to_list() == ["template:sums"]


@pytest.mark.parametrize(
    ("failing", "kept"), [("Capital?", [False, False]), ("So bad! good", [True, False])]
)
def test_a_failed_request_is_an_error_and_nothing_is_asked_twice(
    tmp_path: Path,
    engine: FakeEngine,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
    kept: list[bool],
) -> None:
    """All that is generated comes first; then cell by cell its likelihoods and scores."""
    monkeypatch.setattr("qpipe.evaluation._served._ATTEMPTS", 1)
    write_rows(tmp_path, ROWS)
    config = make_config(tmp_path, {"mine": business(False)}, concurrency=1)
    engine.fails = lambda text: text == failing
    with pytest.raises(EngineError, match="mine-sort"):
        run(config)
    assert not (tmp_path / "out" / "eval" / "bf16").exists()
    log = (tmp_path / ".qpipe" / "logs" / "evaluate-bf16.log").read_text()
    assert "the prompt is too long" in log

    engine.fails = lambda text: False
    results = run(config)
    assert [task["cached"] for task in results["tasks"].values()] == kept
    asked = Counter(engine.text(body) for body in engine.requests)
    assert len(asked) == 5 and asked.pop(failing) == 2 and set(asked.values()) == {1}


def choice(reply: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = reply["choices"][0]
    return found


def spoil_logprobs(reply: dict[str, Any], change: Callable[[list[Any]], list[Any]]) -> None:
    logprobs = choice(reply)["logprobs"]
    logprobs["token_logprobs"] = change(logprobs["token_logprobs"])


# What an engine may send in place of an answer → the error's words. A change is made in place.
BROKEN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "nothing": (lambda reply: None, "a request of 'mine-.*' failed"),
    "no JSON": (lambda reply: b"<html>", "a request of 'mine-.*' failed"),
    "an error": (lambda reply: {"error": "x"}, "malformed"),
    "no usage": (lambda reply: reply.pop("usage"), "malformed"),
    "no cache's share": (lambda r: r["usage"].pop("prompt_tokens_details"), "malformed"),
    "no choice": (lambda reply: reply["choices"].clear(), "malformed"),
    "two choices": (lambda reply: reply["choices"].append(choice(reply)), "malformed"),
    "no end": (lambda reply: choice(reply).update(finish_reason=None), "reason is None"),
    "aborted": (lambda reply: choice(reply).update(finish_reason="abort"), "reason is 'abort'"),
    "failed": (lambda reply: choice(reply).update(finish_reason="error"), "reason is 'error'"),
}
NO_TEXT: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "null text": (lambda reply: choice(reply).update(text=None), "malformed"),
    "no text": (lambda reply: choice(reply).pop("text"), "malformed"),
}
NO_LOGPROBS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no logprobs": (lambda reply: choice(reply).update(logprobs=None), "malformed"),
    "null": (lambda r: spoil_logprobs(r, lambda values: [None] * len(values)), "malformed"),
    "NaN": (lambda r: spoil_logprobs(r, lambda values: [*values[:-2], math.nan, -1]), "sum nan"),
    "too few": (lambda r: spoil_logprobs(r, lambda values: values[:-1]), "the engine scored"),
    "too many": (lambda r: spoil_logprobs(r, lambda values: [*values, -1]), "the engine scored"),
}


@pytest.mark.parametrize(
    ("prompt", "name", "concurrency"),
    [
        *(("9 - 5 =", name, 4) for name in {**BROKEN, **NO_TEXT}),
        *(("So bad! bad", name, 4) for name in {**BROKEN, **NO_LOGPROBS}),
        *(("9 - 5 =", name, 1) for name in ("nothing", "no choice")),  # lm-eval has another way
    ],
)
def test_no_answer_is_no_zero(
    tmp_path: Path,
    engine: FakeEngine,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    prompt: str,
    name: str,
    concurrency: int,
) -> None:
    """What the engine does not answer ends the run; the answers before it are kept."""
    monkeypatch.setattr("qpipe.evaluation._served._ATTEMPTS", 1)
    change, says = {**BROKEN, **NO_TEXT, **NO_LOGPROBS}[name]

    def spoil(asked: str, reply: dict[str, Any]) -> Any:
        if asked != prompt:
            return reply
        changed = change(reply)
        return changed if name in ("nothing", "no JSON", "an error") else reply

    engine.spoil = spoil
    write_rows(tmp_path, ROWS)
    config = make_config(tmp_path, {"mine": business(False)}, concurrency=concurrency)
    with pytest.raises(EngineError, match=says) as caught:
        run(config)
    assert caught.value.mend
    assert not (tmp_path / "out" / "eval" / "bf16").exists()
    engine.spoil = lambda asked, reply: reply
    scores = {task: each["score"] for task, each in run(config)["tasks"].items()}
    assert scores == {"mine-math": 0.5, "mine-sort": 0.5}


def test_long_prompts_reach_the_engine_whole(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    """Nothing cuts them in silence."""
    long = "x" * 5000
    rows = [{**row, "prompt": f"{row['prompt']}{long}?"} for row in ROWS["sort"]]
    write_rows(tmp_path, {**ROWS, "sort": rows})
    run(make_config(tmp_path, {"mine": business(False)}, max_model_len=6000))
    asked = {engine.text(body) for body in engine.requests}
    assert {f"So bad!{long}? good", f"So bad!{long}? bad", f"Capital?{long}?"} <= asked


def test_empty_answers_are_counted(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    write_rows(tmp_path, ROWS)
    engine.answer = lambda prompt: (
        "" if "9" in prompt else " \n" if "1" in prompt else "?",
        "stop",
    )
    results = run(make_config(tmp_path, {"mine": business(False)}))
    assert {name: each["empty"] for name, each in results["tasks"].items()} == {
        "mine-math": 2,
        "mine-sort": 0,
    }
    assert {name: each["empty"] for name, each in results["categories"].items()} == {
        "math": 2,
        "sort": 0,
    }
    samples = pd.read_parquet(tmp_path / "out" / "eval" / "bf16" / "samples.parquet")
    by_id = samples.set_index("doc_id")["empty"]
    assert by_id["math-0"] and by_id["math-1"] and not by_id["sort-1"]
    assert pd.isna(by_id["sort-0"]), "nothing was generated"


def test_two_bos_tokens_are_refused(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    write_rows(tmp_path, {**ROWS, "math": [{**ROWS["math"][0], "prompt": "<s><s>1 + 1 ="}]})
    with pytest.raises(InvalidMeasurement, match="two BOS"):
        run(make_config(tmp_path, {"mine": business(False)}))
    assert not engine.requests


@pytest.mark.parametrize("before", [("<s>",), ()])
@pytest.mark.parametrize("template", [None, TEMPLATE, NONE, TWICE])
def test_bos_of_what_is_really_sent(
    tmp_path: Path, engine: FakeEngine, run: Run, before: tuple[str, ...], template: str | None
) -> None:
    """Without a template, and with one that brings a BOS, none, and two."""
    folder = write_tokenizer(tmp_path / "tokenizer", before=before, template=template)
    write_rows(tmp_path, ROWS)
    config = make_config(tmp_path, {"mine": business(template is not None)})
    if template == TWICE:
        with pytest.raises(InvalidMeasurement, match="two BOS"):
            run(config, tokenizer_dir=folder)
        assert not engine.requests
        return
    results = run(config, tokenizer_dir=folder)
    wanted = bool(before) if template is None else template == TEMPLATE
    bos = engine.tokenizer.bos_token_id
    prompts = [body["prompt"][0] for body in engine.requests]
    assert [ids[:1] == [bos] for ids in prompts] == [wanted] * len(prompts)
    assert not [ids for ids in prompts if bos in ids[1:]]
    assert {task: each["bos"] for task, each in results["tasks"].items()} == {
        task: {"ids": [bos], "share": float(wanted)} for task in ("mine-math", "mine-sort")
    }


def test_bos_is_checked_on_the_ids_that_are_sent(
    tmp_path: Path, engine: FakeEngine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever lies between the tokenizer and the request may not lose it."""
    monkeypatch.setattr("qpipe.evaluation._served._ATTEMPTS", 1)
    monkeypatch.setattr(Bos, "begin", lambda bos, ids, chat: list(ids))
    write_rows(tmp_path, ROWS)
    with pytest.raises(InvalidMeasurement, match="lacks the BOS"):
        run(make_config(tmp_path, {"mine": business(False)}))
    assert not engine.requests


def test_faults_come_before_anything_runs(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    write_rows(tmp_path, {**ROWS, "sort": [{**ROWS["sort"][0], "scorer": "magic"}]})
    twice = PublicSuite(kind="public", tasks={"arc_easy": PublicTask(category="k")})
    config = make_config(tmp_path, {"mine": business(False), "p": twice, "q": twice})
    with pytest.raises(ConfigError) as caught:
        run(config)
    assert [fault.key for fault in caught.value.faults] == ["scorer", "tasks.arc_easy"]
    assert not engine.requests


def own_suite(root: Path, source: str) -> BusinessSuite:
    (root / "own.py").write_text(source)
    return BusinessSuite(
        kind="business",
        files={"math": "math.jsonl", "sort": "sort.jsonl"},
        chat=False,
        scorers={"share": "own.py:share"},
    )


def test_a_users_own_scorer(tmp_path: Path, run: Run) -> None:
    own = {"prompt": "2 + 3 =", "reference": 5, "scorer": "share", "level": 1}
    write_rows(tmp_path, {**ROWS, "math": [own]})
    source = (
        "def share(row, answer): return 0.25 if row['reference'] == 5 and answer == ' 2' else 0"
    )
    config = make_config(tmp_path, {"mine": own_suite(tmp_path, source)})
    assert run(config)["categories"]["math"]["score"] == 0.25

    # Another function, another cell; the cells of other scorers are kept.
    own_suite(tmp_path, source.replace("0.25", "0.75"))
    again = run(config)
    assert again["categories"]["math"]["score"] == 0.75
    assert [task["cached"] for task in again["tasks"].values()] == [False, True]


def test_a_failing_scorer_is_no_zero(tmp_path: Path, run: Run) -> None:
    own = {"prompt": "2 + 3 =", "reference": 5, "scorer": "share", "level": 1}
    write_rows(tmp_path, {**ROWS, "math": [own]})
    config = make_config(
        tmp_path, {"mine": own_suite(tmp_path, "def share(row, answer): open('/x')")}
    )
    with pytest.raises(ConfigError, match=r"own\.py: share: it failed on row 'math-0'"):
        run(config)
    assert not (tmp_path / "out" / "eval" / "bf16").exists()


def test_a_scorer_that_cannot_be_loaded_and_a_bad_row(
    tmp_path: Path, engine: FakeEngine, run: Run
) -> None:
    write_rows(tmp_path, {**ROWS, "math": [{**ROWS["math"][0], "scorer": "shore"}]})
    config = make_config(tmp_path, {"mine": own_suite(tmp_path, "x = 1")})
    with pytest.raises(ConfigError) as caught:
        run(config)
    assert [fault.key for fault in caught.value.faults] == ["scorer", "scorers.share"]
    assert not engine.requests


CODE = {
    "prompt": "f doubles",
    "reference": "assert f(2) == 4",
    "scorer": "code_tests",
    "level": 1,
    "prefix": "def f(x):\n",
}


def code_config(root: Path) -> Config:
    write_rows(root, {"code": [CODE, {**CODE, "prompt": "f + f"}]})
    suite = BusinessSuite(kind="business", files={"code": "code.jsonl"}, chat=False)
    return make_config(root, {"mine": suite})


def test_code_is_judged_by_its_tests(
    tmp_path: Path, engine: FakeEngine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ALLOW_CODE_EVAL", "1")
    try:
        require_sandbox()
    except EnvError as error:
        pytest.skip(error.message)
    engine.answer = lambda prompt: (" return x + x" if "+" in prompt else " return 9", "stop")
    assert run(code_config(tmp_path))["categories"]["code"]["score"] == 0.5


@pytest.mark.parametrize(
    ("allowed", "says"),
    [(False, "'mine-code' runs code that the model wrote"), (True, "no sandbox")],
)
def test_code_is_refused_before_the_engine_is_asked(
    tmp_path: Path,
    engine: FakeEngine,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    allowed: bool,
    says: str,
) -> None:
    monkeypatch.delenv("HF_ALLOW_CODE_EVAL", raising=False)
    if allowed:
        monkeypatch.setenv("HF_ALLOW_CODE_EVAL", "1")
    monkeypatch.setattr("qpipe.evaluation._sandbox._way", lambda: (None, "it is off"))
    with pytest.raises(EnvError, match=says) as caught:
        run(code_config(tmp_path))
    assert caught.value.mend and not engine.requests
