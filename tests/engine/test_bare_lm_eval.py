"""Public tasks through qpipe give what a bare ``lm_eval`` gives, to the last digit.

Both ask one server at concurrency 1, a task at a time. The bare side is lm-eval's own tasks with
rows in the hub's columns; qpipe reads the same rows in the form in which their authors publish them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from qpipe.config import Config, PublicSuite, Release
from qpipe.evaluation import plan_suites, run_suites
from qpipe.hardware import detect
from qpipe.paths import Workspace
from qpipe.serving import Server, plan_serving, start
from tests.engine.conftest import ENVS
from tests.workspace_fixture import REPO, silent

pytestmark = pytest.mark.engine

CONTEXT = 2048
CHOICES = [["a stone", "a leaf"], ["the sun", "the moon", "a lamp"], ["ice", "fire"]]
QUESTIONS = ["What falls in autumn?", "What shines at night?", "What melts?"]
GOLD = [1, 1, 0]
SUMS = [(f"Ann has {n} pens and gets {n + 2} more. How many?", 2 * n + 2) for n in range(3, 9)]
NUMBERS = [("Ana kalamu 3 na 4. Jumla?", "7"), ("Siku 2,125 na 1?", "2,126"), ("Ngapi?", "5")]
SUBJECT = [(f"Which bone is number {n}?", [f"bone {n + i}" for i in range(4)], n % 4) for n in range(7)]  # fmt: skip
STEPS = [
    {"input": f"Take {n} steps. Turn around. Take {n + n % 2} steps.\nOptions:\n- Yes\n- No"}
    | {"target": "No" if n % 2 else "Yes"}
    for n in range(2, 6)
]
COUNTS = [{"input": f"I have {n} apples and a plum.", "target": str(n + 1)} for n in range(2, 5)]
ARTICLES = [
    f" = Title {n} = \n \n"
    + "".join(f" Sentence {i} of {n} is , as ever , dull . \n" for i in range(n))
    for n in (5, 80, 20)
]


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def published(root: Path) -> PublicSuite:
    """The rows as their authors publish them, and the suite that reads them."""
    arc = [
        {"query": f"Question: {question}", "choices": choices, "gold": gold}
        for question, choices, gold in zip(QUESTIONS, CHOICES, GOLD, strict=True)
    ]
    write(root / "arc.jsonl", arc)
    sums = [{"question": question, "answer": f"So.\n#### {answer}"} for question, answer in SUMS]
    write(root / "train.jsonl", sums[:4])
    write(root / "test.jsonl", sums[4:])
    lines = "".join(f"{question}\t{answer}\n" for question, answer in NUMBERS)
    (root / "mgsm_sw.tsv").write_text(lines, encoding="utf-8")
    mmlu = [
        {"subject": subject, "question": question, "answer": answer}
        | {f"choice{index}": choice for index, choice in enumerate(choices)}
        for subject in ("anatomy", "law")
        for question, choices, answer in SUBJECT
    ]
    write(root / "mmlu_dev.jsonl", [row for index, row in enumerate(mmlu) if index % 7 < 5])
    write(root / "mmlu_test.jsonl", [row for index, row in enumerate(mmlu) if index % 7 >= 5])
    write(root / "bbh" / "navigate.jsonl", STEPS)
    write(root / "bbh" / "object_counting.jsonl", COUNTS)
    (root / "wiki.raw").write_text(" \n" + "".join(ARTICLES), encoding="utf-8")
    arc_task = {"category": "knowledge", "rows": "rows.py:arc", "data_files": "arc.jsonl"}
    bbh = {"category": "reasoning", "data_files": "bbh/{name}.jsonl"}
    tasks = {
        "arc_easy": {**arc_task, "metric": "acc"},
        "arc_challenge": {**arc_task, "metric": "acc_norm"},
        "gsm8k": {
            "category": "math",
            "num_fewshot": 3,
            "data_files": {"train": "train.jsonl", "test": "test.jsonl"},
            "metric": "exact_match,flexible-extract",
        },
        "mgsm_direct_sw": {
            "category": "low-resource",
            "rows": "rows.py:mgsm",
            "data_files": "mgsm_{name}.tsv",
            "metric": "exact_match,flexible-extract",
        },
        "mmlu_anatomy": {
            "category": "knowledge",
            "num_fewshot": 5,
            "rows": "rows.py:mmlu",
            "data_files": {"dev": "mmlu_dev.jsonl", "test": "mmlu_test.jsonl"},
            "metric": "acc",
        },
        "bbh_fewshot_navigate": bbh,
        "bbh_fewshot_object_counting": bbh,
        "wikitext": {
            "category": "language-modelling",
            "rows": "rows.py:wikitext",
            "data_files": "wiki.raw",
            "metric": "word_perplexity",
        },
    }
    return PublicSuite.model_validate({"kind": "public", "tasks": tasks})


def hubs(root: Path) -> Path:
    """A folder of tasks ``bare_TASK``: lm-eval's own over rows as the hub has them."""
    import lm_eval.tasks

    arc = [
        {
            "question": question,
            "choices": {"text": choices, "label": ["A", "B", "C"][: len(choices)]},
            "answerKey": "ABC"[gold],
        }
        for question, choices, gold in zip(QUESTIONS, CHOICES, GOLD, strict=True)
    ]
    sums = [{"question": question, "answer": f"So.\n#### {answer}"} for question, answer in SUMS]
    mgsm = [
        {"question": question, "answer": None, "answer_number": int(answer.replace(",", ""))}
        for question, answer in NUMBERS
    ]
    mmlu = [
        {"question": question, "subject": "anatomy", "choices": choices, "answer": answer}
        for question, choices, answer in SUBJECT
    ]
    pages = [{"page": page.removesuffix("\n")} for page in ARTICLES]
    pages[-1]["page"] += "\n"  # the file's last line ends, others end before the next title
    rows = {
        "arc/arc_easy": {"test": arc},
        "arc/arc_challenge": {"test": arc},
        "gsm8k/gsm8k": {"train": sums[:4], "test": sums[4:]},
        "mgsm/direct/mgsm_direct_sw": {"test": mgsm},
        "mmlu/default/mmlu_anatomy": {"dev": mmlu[:5], "test": mmlu[5:]},
        "bbh/fewshot/navigate": {"test": STEPS},
        "bbh/fewshot/object_counting": {"test": COUNTS},
        "wikitext/wikitext": {"test": pages},
    }
    tasks = root / "tasks"
    tasks.mkdir(parents=True)
    for place, splits in rows.items():
        name = place.rsplit("/", 1)[1]
        name = f"bbh_fewshot_{name}" if place.startswith("bbh") else name
        files = {
            split: write(root / f"{name}-{split}.jsonl", part) for split, part in splits.items()
        }
        body = {
            "include": str(Path(lm_eval.tasks.__file__).parent / f"{place}.yaml"),
            "task": f"bare_{name}",
            "tag": None,
            "dataset_path": "json",
            "dataset_name": None,
            "dataset_kwargs": {"data_files": files, "cache_dir": str(root / "cache")},
            "training_split": "train" if "train" in splits else None,
            "validation_split": None,
        }
        (tasks / f"{name}.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    return tasks


@pytest.fixture(scope="module")
def config(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A release of the tiny model that asks public tasks."""
    root = tmp_path_factory.mktemp("public")
    (root / "rows.py").write_text((REPO / "evalsets" / "public" / "rows.py").read_text())
    release = {
        "name": "public",
        "model": {"source": f"path:{workspace / 'tiny'}"},
        "serve": {"max_model_len": CONTEXT, "max_num_seqs": 4, "kv_cache_gib": 1},
        "variants": {"any": {"scheme": "gptq-w4a16"}},
        "evaluation": {"suites": ["public"], "concurrency": 1, "data_dir": "data"},
        "gate": {},
    }
    suite = published(root / "data")
    files = {
        "configs/release.yaml": release,
        "evalsets/public/public.yaml": suite.model_dump(mode="json", exclude_defaults=True),
    }
    for name, body in files.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(yaml.safe_dump(body))
    (root / "evalsets" / "public" / "rows.py").write_text((root / "rows.py").read_text())
    for name in ("calib", "configs/envs", "configs/schemes", "evalsets/heldout"):
        (root / name).symlink_to(REPO / name)
    subprocess.run(
        [sys.executable, "-m", "qpipe", "model"],
        cwd=root,
        env={**os.environ, "QPIPE_ENVS": str(ENVS), "PYTHONPATH": str(REPO)},
        check=True,
        capture_output=True,
    )
    return Config(
        Workspace(root),
        Release.model_validate(release),
        {},
        {"public": suite},
        {"public": root / "rows.yaml"},
    )


@pytest.fixture(scope="module")
def server(config: Config) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QPIPE_ENVS", str(ENVS))
        plan = plan_serving(config, "bf16", detect(), silent)
        with start(plan, config.workspace, silent) as server:
            yield server


def bare(server: Server, tasks: Path, name: str, shots: int | None) -> dict[str, Any]:
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    arguments = {
        "model": "bf16",
        "base_url": f"{server.client.base_url}/completions",
        "tokenizer": str(server.plan.tokenizer),
        "num_concurrent": 1,
        "tokenized_requests": True,
        "max_length": CONTEXT,
    }
    found: dict[str, Any] = simple_evaluate(
        model="local-completions",
        model_args=arguments,
        tasks=[f"bare_{name}"],
        num_fewshot=shots,
        task_manager=TaskManager(include_defaults=False, include_path=str(tasks)),
        bootstrap_iters=0,
        random_seed=0,
        numpy_random_seed=0,
        torch_random_seed=0,
        fewshot_random_seed=0,
    )
    return found


def test_every_value_and_every_answer(config: Config, server: Server, tmp_path: Path) -> None:
    tasks = hubs(tmp_path)
    expected = {
        name: bare(server, tasks, name, task.num_fewshot)
        for name, task in config.suites["public"].tasks.items()
    }
    plan = plan_suites(config, "bf16", server.plan.tokenizer)
    before = server.client.tokens()
    results = run_suites(
        config,
        "bf16",
        plan,
        base_url=server.client.base_url,
        model_id="bf16",
        tokenizer_dir=server.plan.tokenizer,
        checkpoint_hash=server.plan.checkpoint_hash,
        context=server.provenance(detect()),
        out_dir=tmp_path / "out",
    )
    samples = pd.read_parquet(tmp_path / "out" / "samples.parquet")
    # What the engine says with each answer is what its counters say of all. The rows of both ARC
    # sets are the same here: they are asked once.
    tasks_asked = [task for name, task in results["tasks"].items() if name != "arc_challenge"]
    said = [task["exercises"] for task in tasks_asked]
    counted = server.client.tokens().since(before)
    assert counted == {name: sum(each[name] for each in said) for name in counted}
    assert len(results["tasks"]) == 8
    for name, found in results["tasks"].items():
        theirs, metric = expected[name], found["metric"]
        assert repr(found["value"]) == repr(float(theirs["results"][f"bare_{name}"][metric])), name
        mine = samples[samples["task"] == name]
        wanted = metric.partition(",")[2]
        logged = [each for each in theirs["samples"][f"bare_{name}"] if each["filter"] == wanted]
        for (_, row), each in zip(mine.iterrows(), logged, strict=True):
            score = each[metric.partition(",")[0]]
            if isinstance(score, tuple):
                score = score[0] / score[1]
            assert row["score"] == score
            if pd.notna(row["finish_reason"]):
                assert row["response"] == each["resps"][0][0]
    assert results["tasks"]["wikitext"]["value"] > 1
