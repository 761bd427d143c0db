from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from qpipe import inputs
from qpipe.config import BusinessSuite, Config, PublicSuite, Serve, Variant
from qpipe.inputs import note_inputs
from qpipe.paths import Workspace
from qpipe.records import read_json
from tests.workspace_fixture import AMX, AVX2, checked_in_scheme, small_config


@pytest.fixture
def config(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr(inputs, "detect", lambda: AMX)
    root = workspace.root
    for name, text in {
        "mixes/mix.yaml": "sources: {p: {file: p.txt, format: text, category: c, weight: 1}}",
        "mixes/p.txt": "prose",
        "held/code.txt": "code",
        "sets/arc.jsonl": "{}",
        "own/math.jsonl": "{}",
        "own/judge.py": "",
        "own/read.py": "",
        "sets/bbh/navigate.jsonl": "{}",
        "given/config.json": "{}",
    }.items():
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text(text)
    config = small_config(workspace)
    release = config.release
    calibration = release.calibration.model_copy(update={"mix": "mixes/mix.yaml"})
    fidelity = release.fidelity.model_copy(update={"texts": "held"})
    evaluation = release.evaluation.model_copy(update={"data_dir": "sets", "suites": ["public"]})
    model = release.model.model_copy(update={"source": "path:given"})
    changed = {
        "calibration": calibration,
        "fidelity": fidelity,
        "evaluation": evaluation,
        "model": model,
    }
    tasks = {
        "arc_easy": {
            "category": "knowledge",
            "rows": "../own/read.py:arc",
            "data_files": "arc.jsonl",
        },
        "bbh_fewshot": {"category": "reasoning", "data_files": {"test": "bbh/{name}.jsonl"}},
    }
    suite = PublicSuite.model_validate({"kind": "public", "tasks": tasks})
    release = release.model_copy(update=changed)
    mine = BusinessSuite(
        kind="business",
        files={"math": "../own/math.jsonl"},
        scorers={"judge": "../own/judge.py:judge"},
    )
    files = {"public": root / "mixes" / "x.yaml", "mine": root / "mixes" / "mine.yaml"}
    return Config(workspace, release, config.schemes, {"public": suite, "mine": mine}, files)


def noted(config: Config) -> dict[str, dict[str, object]]:
    note_inputs(config)
    folder = config.workspace.out / "inputs"
    return {path.stem: read_json(path, "-") for path in folder.glob("*.json")}


def test_the_same_inputs_give_the_same_bytes(config: Config) -> None:
    first = noted(config)
    assert set(first) == {"machine", "model", "calibration", "evaluation"}
    assert noted(config) == first


def test_the_shortest_context_is_an_input_of_all_variants(config: Config) -> None:
    first = noted(config)
    gptq = config.release.variants["gptq"]
    short = gptq.model_copy(update={"serve": Serve(max_model_len=1024)})
    variants = {**config.release.variants, "gptq": short}
    release = config.release.model_copy(update={"variants": variants})
    second = noted(replace(config, release=release))
    assert second["evaluation"]["window"] == 1024
    del first["evaluation"], second["evaluation"]
    assert first == second


@pytest.mark.parametrize(
    ("path", "record"),
    [
        ("mixes/mix.yaml", "calibration"),
        ("mixes/p.txt", "calibration"),
        ("held/code.txt", "evaluation"),
        ("held/new.txt", "evaluation"),
        ("sets/arc.jsonl", "evaluation"),
        ("own/math.jsonl", "evaluation"),
        ("own/judge.py", "evaluation"),
        ("own/read.py", "evaluation"),
        ("sets/bbh/navigate.jsonl", "evaluation"),
        ("sets/bbh/word_sorting.jsonl", "evaluation"),
        ("given/config.json", "model"),
        ("given/model.safetensors", "model"),
    ],
)
def test_a_changed_file_changes_its_record_alone(config: Config, path: str, record: str) -> None:
    before = noted(config)
    file = config.workspace.root / path
    file.write_text((file.read_text() if file.exists() else "") + "\n")
    after = noted(config)
    assert {name for name in before if before[name] != after[name]} == {record}


def test_contents_count_for_data_and_not_their_times(config: Config) -> None:
    before = noted(config)
    os.utime(Path(config.workspace.root, "held/code.txt"), (1, 1))
    assert noted(config) == before


def test_another_machine(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    before = noted(config)
    monkeypatch.setattr(inputs, "detect", lambda: AVX2)
    after = noted(config)
    assert {name for name in before if before[name] != after[name]} == {"machine"}


def test_a_moved_workspace_is_the_same(config: Config, tmp_path: Path) -> None:
    before = noted(config)
    root = config.workspace.root.rename(tmp_path.with_name("moved"))
    files = {
        name: root / path.relative_to(config.workspace.root)
        for name, path in config.suite_files.items()
    }
    moved = Config(Workspace(root), config.release, config.schemes, config.suites, files)
    assert noted(moved) == before


def test_a_tool_is_an_input_of_what_it_makes_alone(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    awq = Variant.model_validate({"scheme": "autoawq-w4a16"})
    theirs = Variant.model_validate({"scheme": "gptq-w4a16", "checkpoint": "path:given"})
    variants = {**config.release.variants, "awq": awq, "theirs": theirs}
    release = config.release.model_copy(update={"variants": variants})
    schemes = {**config.schemes, "autoawq-w4a16": checked_in_scheme("autoawq-w4a16")}
    config = replace(config, release=release, schemes=schemes)
    envs = config.workspace.root / "configs" / "envs"
    envs.mkdir(parents=True)

    def tools() -> dict[str, object]:
        note_inputs(config)
        folder = config.workspace.out / "inputs" / "checkpoints"
        return {name: read_json(folder / f"{name}.json", "-")["tool"] for name in variants}

    def changed() -> set[str]:
        nonlocal before
        before, last = tools(), before
        return {name for name in variants if before[name] != last[name]}

    before = tools()
    (envs / "autoawq.source.txt").write_text("autoawq==0.2.9")
    assert changed() == {"awq"}
    (envs / "quantize.txt").write_text("llmcompressor==0.13.0")
    assert changed() == {"gptq", "fp8", "kv"}
    monkeypatch.setattr(inputs, "worker_hash", lambda name: f"new {name == 'autoawq'}")
    assert changed() == {"gptq", "fp8", "kv", "awq"}


def test_a_ready_made_checkpoint_that_was_trained_is_checked_anew(config: Config) -> None:
    variant = config.release.variants["gptq"].model_copy(update={"checkpoint": "path:given"})
    records = []
    for trained in (False, True):
        variants = {"gptq": variant.model_copy(update={"trained": trained})}
        release = config.release.model_copy(update={"variants": variants, "fallback": {}})
        note_inputs(replace(config, release=release))
        records.append(read_json(config.workspace.out / "inputs/checkpoints/gptq.json", "-"))
    assert records[0] != records[1]
