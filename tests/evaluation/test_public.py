"""lm-eval's own tasks over rows that the tests make."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from qpipe.config import Config, PublicSuite, PublicTask
from qpipe.errors import ConfigError, EnvError, InvalidMeasurement
from qpipe.evaluation import SuitePlan, plan_suites
from qpipe.evaluation._plan import _metric
from qpipe.evaluation._public import public_tasks
from qpipe.evaluation._questions import question_rows
from tests.evaluation.conftest import make_config
from tests.workspace_fixture import REPO

if TYPE_CHECKING:
    from tests.evaluation.conftest import FakeEngine, Run

READERS = (REPO / "evalsets" / "public" / "rows.py").read_text()
GSM8K = "exact_match,flexible-extract"
Plan = Callable[..., SuitePlan]


@pytest.fixture(autouse=True)
def readers(tmp_path: Path) -> Path:
    """The checked-in readers beside the suite; the folder for local rows."""
    (tmp_path / "rows.py").write_text(READERS)
    (tmp_path / "data").mkdir()
    return tmp_path / "rows.py"


@pytest.fixture
def plan(tmp_path: Path, tokenizer_dir: Path) -> Plan:
    def plan(data_dir: str | None = "data", **tasks: PublicTask) -> SuitePlan:
        return plan_suites(over(tmp_path, data_dir, **tasks), "bf16", tokenizer_dir)

    return plan


def over(root: Path, data_dir: str | None = "data", **tasks: PublicTask) -> Config:
    suite = PublicSuite(kind="public", tasks=tasks)
    return make_config(root, {"p": suite}, data_dir=data_dir)


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_arc(root: Path) -> PublicTask:
    rows = [
        {"query": "Question: Sky?", "choices": ["blue", "loud"], "gold": 0},
        {"query": "Question: Ice?", "choices": ["hot", "cold"], "gold": 1},
    ]
    write_lines(root / "data" / "arc.jsonl", rows)
    return PublicTask(
        category="knowledge", rows="rows.py:arc", data_files="arc.jsonl", metric="acc"
    )


def sums(count: int) -> list[dict[str, Any]]:
    return [{"question": f"{n} + 1?", "answer": f"so\n#### {n + 1}"} for n in range(count)]


def write_gsm8k(root: Path, **changes: Any) -> PublicTask:
    for name, rows in {"train": sums(3), "test": sums(2)}.items():
        write_lines(root / "data" / f"{name}.jsonl", rows)
    settings: dict[str, Any] = {
        "category": "math",
        "num_fewshot": 1,
        "data_files": {"train": "train.jsonl", "test": "test.jsonl"},
        "metric": GSM8K,
    }
    return PublicTask(**settings | changes)


def test_tasks_over_local_rows(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    engine.likes = lambda text: text.endswith(("blue", "hot"))
    engine.answer = lambda prompt: ("It is 1", "stop")
    tasks = {"arc_easy": write_arc(tmp_path), "gsm8k": write_gsm8k(tmp_path, limit=1)}
    config = over(tmp_path, **tasks)
    results = run(config)
    found = {"n": 2, "score": 0.5, "unit": None, "truncated_share": 0.0, "empty": 0}
    assert results["categories"]["knowledge"] == found
    assert results["tasks"]["arc_easy"]["value"] == 0.5
    task = results["tasks"]["gsm8k"]
    assert (task["n"], task["score"], task["value"], task["metric"]) == (1, 1.0, 1.0, GSM8K)
    assert results["not_measured"] == {}
    (generated,) = (body for body in engine.requests if not body.get("echo"))
    prompt = engine.tokenizer.decode(generated["prompt"][0])
    assert prompt.startswith("<s>Question:") and prompt.count("Question:") == 2
    asked = {engine.tokenizer.decode(b["prompt"][0]) for b in engine.requests if b.get("echo")}
    assert "<s>Question: Sky?\nAnswer: loud" in asked
    again = run(config)
    assert all(task["cached"] for task in again["tasks"].values())


def test_sampled_answers_are_asked_once(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    """lm-eval keeps none of them, so that an answer that came ahead would be asked again."""
    sampled = {"do_sample": True, "temperature": 0.7, "until": ["\n"]}
    task = write_gsm8k(tmp_path, override={"generation_kwargs": sampled})
    results = run(over(tmp_path, gsm8k=task))
    assert len(engine.requests) == 2
    assert results["tasks"]["gsm8k"]["exercises"]["requests"] == 2


def test_repeats_of_a_greedy_answer_are_one(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    results = run(over(tmp_path, gsm8k=write_gsm8k(tmp_path, override={"repeats": 3})))
    assert len(engine.requests) == 2
    assert results["tasks"]["gsm8k"]["exercises"]["requests"] == 2


def test_a_task_that_says_greedy_is_asked_greedily(
    tmp_path: Path, engine: FakeEngine, run: Run
) -> None:
    """lm-eval's local models are greedy then, whatever the temperature beside it."""
    settings = {"do_sample": False, "temperature": 1, "until": ["\n"]}
    run(over(tmp_path, gsm8k=write_gsm8k(tmp_path, override={"generation_kwargs": settings})))
    assert [body["temperature"] for body in engine.requests] == [0, 0]


@pytest.mark.parametrize("reader", [None, "own.py:read"])
def test_rows_that_a_task_draws_are_drawn_once(
    tmp_path: Path, engine: FakeEngine, run: Run, reader: str | None
) -> None:
    """GPQA shuffles the choices of each question whenever it is asked for its questions."""
    lines = "[json.loads(line) for line in path.read_text().splitlines()]"
    (tmp_path / "own.py").write_text(f"import json\ndef read(path, name):\n    return {lines}\n")
    wrong = {f"Incorrect Answer {number}": f"wrong {number}" for number in (1, 2, 3)}
    rows = [{"Question": f"Q{n}?", "Correct Answer": "right", **wrong} for n in range(12)]
    write_lines(tmp_path / "data" / "gpqa.jsonl", rows)

    def answer(prompt: str) -> tuple[str, str]:
        return f"The correct answer is {re.findall(r'[(][A-D][)](?= right)', prompt)[-1]}", "stop"

    engine.answer = answer
    task = PublicTask(
        category="knowledge",
        num_fewshot=0,
        data_files={"train": "gpqa.jsonl"},
        rows=reader,
        metric="exact_match,flexible-extract",
    )
    results = run(over(tmp_path, gpqa_main_cot_zeroshot=task))
    assert results["categories"]["knowledge"]["score"] == 1.0
    assert len(engine.requests) == 12


def test_another_reader_is_another_cell(tmp_path: Path, run: Run, readers: Path) -> None:
    config = over(tmp_path, arc_easy=write_arc(tmp_path), gsm8k=write_gsm8k(tmp_path))
    run(config)
    readers.write_text(f"{READERS}# changed\n")
    assert [task["cached"] for task in run(config)["tasks"].values()] == [False, True]


@pytest.mark.parametrize("suffix", ["json", "csv", "tsv", "parquet"])
def test_files_are_read_by_their_suffix(tmp_path: Path, plan: Plan, suffix: str) -> None:
    rows = [{"question": 'One,\t"two"\n?', "answer": "#### 3"}, {"question": "4", "answer": "5"}]
    path, frame = tmp_path / "data" / f"test.{suffix}", pd.DataFrame(rows)
    if suffix == "json":
        path.write_text(json.dumps(rows))
    elif suffix == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    task = write_gsm8k(tmp_path, num_fewshot=0, data_files=path.name)
    (cell,) = plan(gsm8k=task).cells
    found = list(cell.load()["tasks"]["gsm8k"].eval_docs)
    assert [row["question"] for row in found] == [row["question"] for row in rows]


def test_a_nested_group_over_one_file(
    tmp_path: Path, engine: FakeEngine, run: Run, tokenizer_dir: Path
) -> None:
    index = public_tasks(["mmlu"], tokenizer_dir).task_index
    names = [
        entry.cfg["dataset_name"]
        for name, entry in index.items()
        if name.startswith("mmlu_") and entry.yaml_path and entry.yaml_path.parent.name == "default"
        if "dataset_name" in entry.cfg
    ]
    assert len(names) == 57

    def row(subject: str, number: int) -> dict[str, Any]:
        choices = {f"choice{index}": f"{subject} {index}" for index in range(4)}
        return {"subject": subject, "question": f"{number}?", **choices, "answer": number % 4}

    # A subject more has twice the questions: the group's figure weighs subjects by size.
    rows = [row(name, number) for name in names for number in range(2 if name < "c" else 1)]
    write_lines(tmp_path / "data" / "test.jsonl", rows)
    write_lines(tmp_path / "data" / "dev.jsonl", [row(name, 9) for name in names])
    task = PublicTask(
        category="knowledge",
        num_fewshot=1,
        rows="rows.py:mmlu",
        data_files={"dev": "dev.jsonl", "test": "test.jsonl"},
        metric="acc",
    )
    engine.likes = lambda text: text.endswith("A")  # right for question 0 of every subject
    results = run(over(tmp_path, mmlu=task))
    found = results["tasks"]["mmlu"]
    assert found["n"] == len(rows) > 57
    assert found["value"] == pytest.approx(57 / len(rows))
    assert found["score"] == pytest.approx(57 / len(rows))
    samples = pd.read_parquet(tmp_path / "out" / "eval" / "bf16" / "samples.parquet")
    assert samples.doc_id.is_unique and "mmlu_anatomy/0" in set(samples.doc_id)
    prompts = [engine.tokenizer.decode(body["prompt"][0]) for body in engine.requests]
    anatomy = [prompt for prompt in prompts if "about anatomy." in prompt]
    assert len(anatomy) == 4 * 2
    assert all("9?\nA. anatomy 0" in prompt for prompt in anatomy)


def write_mgsm(root: Path, *languages: str) -> PublicTask:
    for language in languages:
        (root / "data" / f"mgsm_{language}.tsv").write_text(f"{language}?\t1,234\n")
    return PublicTask(
        category="math", rows="rows.py:mgsm", data_files="mgsm_{name}.tsv", metric=GSM8K
    )


LANGUAGES = ("bn", "de", "en", "es", "fr", "ja", "ru", "sw", "te", "th", "zh")


def test_a_tag_reads_a_file_a_task(tmp_path: Path, engine: FakeEngine, run: Run) -> None:
    engine.answer = lambda prompt: (" 1234." if "Swali" in prompt else "5", "stop")
    results = run(over(tmp_path, mgsm_direct=write_mgsm(tmp_path, *LANGUAGES)))
    found = results["tasks"]["mgsm_direct"]
    assert (found["n"], found["score"]) == (11, 1 / 11)
    assert found["value"] is None, "lm-eval has no figure of a tag"


def test_all_missing_files_are_named(tmp_path: Path, plan: Plan) -> None:
    write_arc(tmp_path)
    (tmp_path / "data" / "arc.jsonl").unlink()
    tasks = {
        "mgsm_direct": write_mgsm(tmp_path, *LANGUAGES[3:]),
        "arc_easy": PublicTask(category="k", rows="rows.py:arc", data_files="arc.jsonl"),
    }
    lacking = r"data lacks arc\.jsonl, mgsm_bn\.tsv, mgsm_de\.tsv, mgsm_en\.tsv\n.*data_dir"
    with pytest.raises(EnvError, match=lacking):
        plan(**tasks)


def test_a_file_without_rows_of_a_task(tmp_path: Path, plan: Plan) -> None:
    write_lines(tmp_path / "data" / "x.jsonl", [])
    task = PublicTask(category="k", rows="rows.py:mmlu", data_files="x.jsonl", num_fewshot=0)
    with pytest.raises(EnvError, match=r"x\.jsonl has no rows of 'anatomy'"):
        plan(mmlu_anatomy=task)


def test_rows_of_another_form_name_the_mend(tmp_path: Path, plan: Plan) -> None:
    arc = write_arc(tmp_path).model_copy(update={"rows": None})
    with pytest.raises(ConfigError) as caught:
        plan(arc_easy=arc, gsm8k=write_gsm8k(tmp_path, data_files="train.jsonl"))
    faults = {fault.key: (fault.message, fault.mend) for fault in caught.value.faults}
    message, mend = faults["tasks.arc_easy.data_files"]
    assert "cannot use these rows" in message and "`rows`" in mend
    message, mend = faults["tasks.gsm8k.data_files"]
    assert message == "'gsm8k' has no split to draw 1 examples from"
    assert "num_fewshot: 0" in mend


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def arc(path, name): return [1]", "it gave 1, no dict"),
        ("def arc(path, name): return [path.gold]", "AttributeError"),
        ("def arc(path): return []", "too many positional arguments"),
        ("def ark(path, name): return []", "there is no function 'arc'"),
    ],
)
def test_a_reader_that_is_wrong(
    tmp_path: Path, plan: Plan, readers: Path, source: str, message: str
) -> None:
    task = write_arc(tmp_path)
    readers.write_text(source)
    with pytest.raises(ConfigError, match=message):
        plan(arc_easy=task)


def test_without_a_data_dir_rows_come_from_the_hub(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(path: str, name: str, **_: Any) -> None:
        raise ConnectionError(f"cannot reach {path} {name}")

    monkeypatch.setattr("datasets.load_dataset", offline)
    with pytest.raises(EnvError, match=r"cannot reach allenai/ai2_arc ARC-Easy\n.*data_dir"):
        plan(None, arc_easy=write_arc(tmp_path))


def test_unknown_task(plan: Plan) -> None:
    with pytest.raises(ConfigError, match="no such task"):
        plan(arc_eazy=PublicTask(category="k"))


def imports(monkeypatch: pytest.MonkeyPatch, **failing: Exception) -> None:
    """Makes the import of a task's code fail, by the name of its folder."""
    from qpipe.evaluation import _public

    original = _public.load_yaml

    def load(path: Path, **settings: Any) -> Any:
        if settings.get("resolve_func") and path.parent.name in failing:
            raise failing[path.parent.name]
        return original(path, **settings)

    monkeypatch.setattr(_public, "load_yaml", load)


def test_what_a_task_cannot_have_leaves_it_out(
    tmp_path: Path, engine: FakeEngine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports(
        monkeypatch,
        humaneval=FileNotFoundError("no module script code_eval\nand more"),
        ifeval=ModuleNotFoundError("No module named 'langdetect'"),
    )
    tasks = {
        "humaneval": PublicTask(category="code"),
        "arc_easy": write_arc(tmp_path),
        "ifeval": PublicTask(category="instruction-following"),
    }
    results = run(over(tmp_path, **tasks))
    assert list(results["tasks"]) == ["arc_easy"]
    assert list(results["categories"]) == ["knowledge"]
    assert results["not_measured"] == {
        "humaneval": {
            "category": "code",
            "reason": "its code needs what cannot be had here:"
            " FileNotFoundError: no module script code_eval",
        },
        "ifeval": {
            "category": "instruction-following",
            "reason": "its code needs what cannot be had here:"
            " ModuleNotFoundError: No module named 'langdetect'",
        },
    }


def test_a_download_of_nltk_that_fails_leaves_out(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nltk

    from qpipe.evaluation import _public

    def download(name: str, *, raise_on_error: bool = False, **_: Any) -> bool:
        if raise_on_error:
            raise ValueError(f"Error loading {name}: no network")
        return False  # what lm-eval does not look at

    original = _public.load_yaml

    def load(path: Path, **settings: Any) -> Any:
        if path.name == "ifeval.yaml":
            nltk.download("punkt_tab")
        return original(path, **settings)

    monkeypatch.setattr(nltk, "download", download)
    monkeypatch.setattr(_public, "load_yaml", load)
    tasks = {"ifeval": PublicTask(category="if"), "arc_easy": write_arc(tmp_path)}
    reason = plan(**tasks).not_measured["ifeval"]["reason"]
    assert reason.endswith("LookupError: NLTK's punkt_tab: Error loading punkt_tab: no network")
    assert nltk.download is download


def test_a_metric_that_the_hub_does_not_give_leaves_out(tmp_path: Path, plan: Plan) -> None:
    # lm-eval logs it, and would fail at the first score.
    metric = {"metric": "no_such", "aggregation": "mean", "higher_is_better": True}
    odd = write_gsm8k(tmp_path, override={"metric_list": [metric]}, metric=None)
    found = plan(gsm8k=odd, arc_easy=write_arc(tmp_path))
    assert [cell.task for cell in found.cells] == ["arc_easy"]
    assert "a metric of 'gsm8k'" in found.not_measured["gsm8k"]["reason"]


def test_nothing_left_to_measure(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    imports(monkeypatch, humaneval=OSError("no network"))
    with pytest.raises(EnvError, match=r"no task can be measured here: humaneval: .*no network"):
        plan(humaneval=PublicTask(category="code"))


def test_code_of_the_model_is_not_run_unasked(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    # The metric asks, once it is loaded.
    imports(monkeypatch, humaneval=ValueError("Set the variable HF_ALLOW_CODE_EVAL to 1"))
    with pytest.raises(EnvError, match="'humaneval' runs code that the model wrote"):
        plan(humaneval=PublicTask(category="code"))


def test_a_metric_under_which_less_is_better_is_refused(tmp_path: Path, plan: Plan) -> None:
    metrics = [
        {"metric": "acc", "aggregation": "mean", "higher_is_better": True},
        {"metric": "brier_score", "aggregation": "brier_score", "higher_is_better": False},
    ]
    arc = write_arc(tmp_path).model_copy(
        update={"override": {"metric_list": metrics}, "metric": "brier_score"}
    )
    with pytest.raises(ConfigError, match=r"tasks\.arc_easy\.metric: under 'brier_score' less is"):
        plan(arc_easy=arc)


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ("exact_mach", r"no metric 'exact_mach' — take one of: exact_match"),
        ("exact_match,strict", r"no filter 'strict' — take one of: strict-match, flexible-extract"),
    ],
)
def test_a_misspelt_metric_is_told_before_anything_is_asked(
    tmp_path: Path, plan: Plan, metric: str, told: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        plan(gsm8k=write_gsm8k(tmp_path, metric=metric))
    (fault,) = raised.value.faults
    assert fault.key == "tasks.gsm8k.metric"
    assert re.search(told, f"{fault.message} — {fault.mend}")


@pytest.mark.parametrize(
    ("metric", "process"), [({"metric": len}, None), ({"metric": "rouge"}, len), ({"metric": "rouge", "hf_evaluate": True}, None)]
)  # fmt: skip
def test_metrics_that_are_named_by_what_scores_them(metric: dict[str, Any], process: Any) -> None:
    """Lm-eval's humaneval declares a function and gives pass@1."""
    declared = SimpleNamespace(process_results=process, metric_list=[metric], filter_list=None)
    task: Any = SimpleNamespace(
        config=declared, aggregation=lambda: {"declared": 0}, higher_is_better=lambda: {}
    )
    wanted = PublicTask(category="code", metric="pass@1")
    assert _metric("t", wanted, [task], Path("p.yaml")) == "pass@1"


def test_metadata_reaches_tasks_that_make_their_rows(
    tmp_path: Path, plan: Plan, tokenizer_dir: Path
) -> None:
    given: list[dict[str, Any]] = []

    def made(**metadata: Any) -> dict[str, Any]:
        import random

        import datasets

        given.append(metadata)
        rows = [{"question": f"{random.random()}?", "answer": "#### 1"}]
        return {"test": datasets.Dataset.from_list(rows), "train": datasets.Dataset.from_list(rows)}

    task = write_gsm8k(tmp_path, num_fewshot=0, metadata={"max_seq_lengths": [64]})
    from qpipe.evaluation import _public

    def built(manager: Any, name: str, changes: dict[str, Any]) -> Any:
        return original(manager, name, {**changes, "custom_dataset": made})

    original = _public._built
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_public, "_built", built)
        hashes = {plan(None, gsm8k=task).cells[0].data_hash for _ in range(2)}
    assert {(one["tokenizer"], *one["max_seq_lengths"]) for one in given} == {
        (str(tokenizer_dir), 64)
    }
    assert len(hashes) == 1, "rows that are drawn are the same for every variant"


def sample(length: int, score: float, metrics: list[str]) -> dict[str, Any]:
    from qpipe.evaluation._answers import Answer, Usage

    answer = Answer("an answer")
    answer.finish_reason, answer.usage = "stop", Usage(5, 0, 2)
    return {
        "filter": "none",
        "metrics": metrics,
        "doc_id": length,
        "doc": {"max_length": length},
        "doc_hash": "d",
        "prompt_hash": "p",
        "target_hash": "t",
        "resps": [[answer]],
        **dict.fromkeys(metrics, -1.0),
        str(length): score,
    }


def test_a_metric_named_by_a_column(tmp_path: Path, plan: Plan) -> None:
    """RULER gives each text's score under its length, and -1 under the others."""
    (cell,) = plan(gsm8k=write_gsm8k(tmp_path, metric="{max_length}")).cells
    samples = [sample(4096, 1.0, ["4096"]), sample(8192, 0.5, ["4096", "8192"])]
    rows, metric = question_rows({"niah": samples}, cell)
    assert list(rows.score) == [1.0, 0.5]
    assert metric == "{max_length},none"
    del samples[0]["doc"]["max_length"]
    with pytest.raises(InvalidMeasurement, match="gives no score a question"):
        question_rows({"niah": samples}, cell)
