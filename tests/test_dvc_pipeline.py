"""``dvc.yaml`` against the command line, the checkout and the release files."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import click
import pytest
import yaml
from dvc.repo import Repo
from dvc.repo.reproduce import plan_repro

from qpipe.cli._main import cli
from qpipe.compare import compare
from qpipe.config import Release
from qpipe.gate import gate
from qpipe.quantize import TOOLS
from qpipe.report import report
from tests.records_fixture import measured
from tests.workspace_fixture import REPO

RELEASES = ["configs/release.yaml", *sorted(f"configs/examples/{path.name}" for path in (REPO / "configs" / "examples").glob("*.yaml"))]  # fmt: skip
# What `qpipe inputs` writes; tests/test_inputs.py sees that it does.
INPUTS = {"machine", "model", "calibration", "evaluation"}
Stages = dict[str, dict[str, Any]]


def fill(value: Any, names: dict[str, Any]) -> Any:
    """Puts values in place of ``${dotted.name}``."""
    if isinstance(value, dict):
        return {key: fill(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill(inner, names) for inner in value]
    if not isinstance(value, str):
        return value

    def look_up(match: re.Match[str]) -> str:
        found: Any = names
        for part in match[1].split("."):
            found = found[part]
        return str(found)

    return re.sub(r"\$\{([^}]+)\}", look_up, value)


def expand(release: dict[str, Any]) -> Stages:
    """Every stage as DVC runs it for one release."""
    stages: Stages = {}
    for name, stage in yaml.safe_load((REPO / "dvc.yaml").read_text())["stages"].items():
        if "foreach" not in stage:
            stages[name] = stage
            continue
        for key, item in release[stage["foreach"].strip("${}")].items():
            stages[f"{name}@{key}"] = fill(stage["do"], {"key": key, "item": item})
    return stages


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((REPO / request.param).read_text())
    return body


@pytest.fixture
def stages(release: dict[str, Any]) -> Stages:
    return expand(release)


def covers(folder: str, path: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder)


def test_commands_exist(stages: Stages) -> None:
    for name, stage in stages.items():
        program, *words = shlex.split(stage["cmd"])
        assert program == "qpipe", name
        command: click.Command = cli
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        context = command.make_context(name, words)  # raises on a wrong argument
        assert context.command is command


def test_every_variant_is_built_and_measured(stages: Stages, release: dict[str, Any]) -> None:
    done = [stage["cmd"] for stage in stages.values()]
    assert len(done) == len(set(done))
    for name in [*release["variants"], *release["fallback"]]:
        assert f"qpipe quantize {name}" in done
    for name in Release.model_validate(release).names:
        assert f"qpipe measure {name}" in done
    for name in release["sensitivity"]:
        assert f"qpipe sensitivity {name}" in done


def test_outs_are_distinct(stages: Stages) -> None:
    outs = [out for stage in stages.values() for out in stage["outs"]]
    assert all(covers("out", out) for out in outs)
    overlaps = [(a, b) for a in outs for b in outs if a is not b and covers(a, b)]
    assert overlaps == []


def test_deps_are_there_or_made(stages: Stages, release: dict[str, Any]) -> None:
    outs = [out for stage in stages.values() for out in stage["outs"]]
    for name, stage in stages.items():
        for dep in stage.get("deps", []):
            if covers("out", dep):
                made = any(covers(dep, out) or covers(out, dep) for out in outs)
                assert made, f"{name}: nothing makes {dep}"
                if covers("out/inputs", dep):
                    place = PurePosixPath(dep)
                    ready = place.parent.name == "checkpoints" and place.stem in release["variants"]
                    assert ready or place.stem in INPUTS
            else:
                assert (REPO / dep).exists(), f"{name}: there is no {dep}"


def test_params_are_keys_of_the_release(stages: Stages, release: dict[str, Any]) -> None:
    for name, stage in stages.items():
        for entry in stage.get("params", []):
            ((file, keys),) = entry.items()
            assert file == "configs/release.yaml"
            for key in keys:
                first, *rest = key.split(".")
                assert first in Release.model_fields, name
                # DVC refuses a parameter that the file lacks, whatever qpipe's default is.
                found: Any = release
                for part in (first, *rest):
                    assert part in found, f"{name}: the release file has no '{key}'"
                    found = found[part]


def test_what_decides_a_result_is_a_parameter_or_a_dependency(stages: Stages) -> None:
    def params(stage: str) -> set[str]:
        return set(stages[stage]["params"][0]["configs/release.yaml"])

    # Each is read by the stage's command, so a change must run it again.
    assert {"model"} <= params("model")
    assert {"calibration", "variants"} <= params("calibrate")
    assert {"calibration", "evaluation", "fidelity", "variants"} <= params("check-calibration")
    assert {"serve", "baseline", "fidelity", "evaluation", "bench"} <= params("baseline")
    assert {"variants", "sensitivity", "fallback"} <= params("compare")
    assert {"gate"} <= params("gate")
    for name in stages:
        if name.startswith("measure@"):
            variant = name.partition("@")[2]
            assert {"serve", f"variants.{variant}"} <= params(name)


def made_again(stages: Stages, changed: set[str]) -> set[str]:
    """``changed`` and every out that follows from it."""
    while True:
        again = [
            stage for stage in stages.values()
            if any(covers(dep, one) or covers(one, dep) for dep in stage.get("deps", []) for one in changed)
        ]  # fmt: skip
        outs = {out for stage in again for out in stage["outs"]}
        if outs <= changed:
            return changed
        changed = changed | outs


def test_another_calibration_set_builds_what_reads_it_alone(stages: Stages) -> None:
    variants = [name.partition("@")[2] for name in stages if name.startswith("quantize@")]
    reads, others = variants[0], variants[1:]
    changed = made_again(stages, {f"out/calib_uses/{reads}.json"})
    assert {f"out/models/{reads}", f"out/eval/{reads}"} <= changed
    assert not changed & {f"out/models/{name}" for name in others}


def test_calibration_is_checked_before_anything_is_quantized(
    release: dict[str, Any], tmp_path: Path
) -> None:
    """No dependency says so: a changed question must not quantize again."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "release.yaml").write_text(yaml.safe_dump(release, sort_keys=False))
    shutil.copy(REPO / "dvc.yaml", tmp_path)
    with Repo.init(str(tmp_path), no_scm=True) as repo:
        order = [stage.name for stage in plan_repro(repo.index.graph)]
    quantized = [at for at, name in enumerate(order) if name.startswith("quantize")]
    assert order.index("check-calibration") < min(quantized)


def test_a_changed_question_builds_no_checkpoint_again(stages: Stages) -> None:
    changed = made_again(stages, {"evalsets", "out/inputs/evaluation.json"})
    assert "out/calib_check.json" in changed and "out/eval/bf16" in changed
    assert not changed & {"out/calib", "out/model"}
    assert not [out for out in changed if covers("out/models", out) and "-mixed" not in out]


def test_compare_restored_from_the_cache_is_enough_for_the_report(tmp_path: Path) -> None:
    config = measured(tmp_path)
    compare(config)
    gate(config)
    shutil.rmtree(config.workspace.sensitivity("x").parent)
    report(config)
    page = (config.workspace.report / "report.md").read_text()
    assert "Sensitivity of gptq" in page


# Carries values around and decides none of them; what the machine decides is in `out/inputs`.
PLUMBING = {"config", "envs", "errors", "hardware", "jsonl", "paths", "processes", "records"}
# Stop or warn before the work, and change nothing of it.
PLUMBING |= {"forecast", "room"}


def test_code_that_a_stage_runs_is_a_dependency(stages: Stages) -> None:
    for name, stage in stages.items():
        code = [dep for dep in stage.get("deps", []) if covers("qpipe", dep)]
        files = [file for dep in code for file in [REPO / dep, *(REPO / dep).glob("**/*.py")]]
        text = "\n".join(file.read_text() for file in files if file.suffix == ".py")
        for package in set(re.findall(r"from qpipe\.(\w+)", text)) - PLUMBING:
            covered = any(PurePosixPath(dep).parts[1] == package for dep in code)
            assert covered, f"{name} runs qpipe/{package} and does not depend on it"
        noted = any(covers("out/inputs/checkpoints", dep) for dep in stage.get("deps", []))
        tools = [REPO / "qpipe" / "workers" / f"{tool}.py" for tool in TOOLS.values() if noted]
        for env, worker in re.findall(r'run_worker\(\s*"(\w+)",\s*"(\w+)"', text):
            if noted and worker in TOOLS.values():
                continue  # the record has the one that the variant's scheme asks for
            path = f"qpipe/workers/{worker}.py"
            if worker == "simulate" and name in ("baseline", "check-calibration"):
                continue  # 16-bit weights need no stand-in; the check serves nothing
            if worker == "model" and name != "model":
                continue  # what it makes is in out/model; the rest of the package reads that
            assert path in code, f"{name} runs {path} and does not depend on it"
            pins = [dep for dep in stage["deps"] if dep.startswith(f"configs/envs/{env}")]
            assert pins, f"{name} runs {path} in {env} and does not depend on its requirements"
        for helper in helpers(file for file in files + tools if file.parent.name == "workers"):
            assert helper in code, f"{name} runs {helper} and does not depend on it"


def helpers(workers: Iterable[Path]) -> set[str]:
    """Files beside workers that they import, but for what carries requests."""
    beside = {path.stem for path in (REPO / "qpipe" / "workers").glob("*.py")} - {"_protocol"}
    imports = {
        name
        for path in workers
        if path.suffix == ".py"
        for name in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
    }
    return {f"qpipe/workers/{name}.py" for name in imports & beside}
