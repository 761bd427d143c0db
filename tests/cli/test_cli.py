from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

import qpipe.envs
import qpipe.gate
import qpipe.measure
import qpipe.serving
from qpipe import __version__
from qpipe.cli import main
from qpipe.cli._main import cli
from qpipe.errors import (
    EngineError,
    EnvError,
    GateError,
    InvalidMeasurement,
    QpipeError,
    WorkerError,
)
from qpipe.processes import QUIET
from tests.workspace_fixture import AVX2, release_body, write_model, write_workspace

Outcome = tuple[int, str, str]


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command's words, without those of groups."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the entry point in an empty folder; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)  # main sets them; the test takes them back

    def run(*words: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["qpipe", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run


@pytest.mark.parametrize("words", [(), ("env",), ("evalset",), *commands()], ids=" ".join)
def test_help(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, [*words, "--help"])
    assert result.exit_code == 0
    command: click.Command = cli
    for word in words:
        assert isinstance(command, click.Group)
        command = command.commands[word]
    if not isinstance(command, click.Group):
        assert f"Example: qpipe {' '.join(words)}" in result.output


def test_commands_are_those_of_the_stages() -> None:
    assert {
        "model", "calibrate", "quantize", "measure", "sensitivity", "compare", "gate", "report",
        "track", "serve", "validate", "env sync",
        "evalset init", "evalset validate", "evalset preview",
    } <= {" ".join(words) for words in commands()}  # fmt: skip


def test_version(run: Any) -> None:
    assert run("--version") == (0, f"qpipe, version {__version__}\n", "")


@pytest.mark.parametrize(
    "words", [("nope",), ("quantize",), ("measure", "x", "--only", "speed"), ("model", "--nope")]
)
def test_usage(run: Any, words: tuple[str, ...]) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert "Error" in err and "Traceback" not in err


def test_config_error(run: Any) -> None:
    code, out, err = run("validate")
    assert (code, out) == (3, "")
    assert err.startswith("qpipe: configs/release.yaml: -: the file does not exist")
    assert "mend:" in err and "Traceback" not in err


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    code = "from qpipe.cli import main; main()"
    answer = subprocess.run(
        [sys.executable, "-c", code, "--debug", "validate"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode != 0
    assert "Traceback" in answer.stderr and "ConfigError" in answer.stderr


# What the machine lacks, and what is rounded.
SIMULATED = {
    "gptq": ("avx512f", "weights"),
    "fp8": ("amx_tile", "weights, activations"),
    "kv": ("avx512f", "kv"),
    "gptq-mixed": ("avx512f", "weights"),
}


LACKS = (
    "note: no suite asks long-context questions, so the quantized KV cache of 'kv' cannot be judged"
    " and the verdict will be INCONCLUSIVE; see 'Long context' in the README\n"
)


def test_validate(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qpipe.hardware.detect", lambda: AVX2)
    write_workspace(tmp_path, release_body())
    (tmp_path / "base").mkdir()
    (tmp_path / "calib" / "mix.yaml").write_text(
        "sources: {a: {file: a.txt, format: text, category: prose, weight: 1}}"
    )
    (tmp_path / "calib" / "a.txt").write_text("text")
    row = {"id": "1", "category": "math", "prompt": "1+1=", "reference": "2", "scorer": "exact", "level": 1}  # fmt: skip
    rows = tmp_path / "evalsets" / "business" / "math.jsonl"
    rows.write_text(json.dumps(row))
    assert run("validate") == (
        0,
        "small: 5 variants (bf16, gptq, fp8, kv, gptq-mixed); no faults\n"
        + "".join(
            f"note: '{name}' is simulated on this machine: this CPU has no {flags};"
            f" rounded: {parts}; products are fp32\n"
            for name, (flags, parts) in SIMULATED.items()
        )
        + LACKS,
        "",
    )
    # Questions on long texts, by their tags, by their category, or of a public task.
    rows.write_text(json.dumps({**row, "tags": ["tokens:2k"]}))
    assert LACKS not in run("validate")[1]
    rows.write_text(json.dumps(row))
    public = tmp_path / "evalsets" / "public" / "needles.yaml"
    public.parent.mkdir()
    release = tmp_path / "configs" / "release.yaml"
    release.write_text(json.dumps(release_body(evaluation={"suites": ["mine", "needles"]})))
    for category, lacks in (("math", True), ("long-context", False)):
        public.write_text(json.dumps({"kind": "public", "tasks": {"x": {"category": category}}}))
        code, out, _ = run("validate")
        assert code == 0 and (LACKS in out) == lacks
    # Without a quantized cache there is nothing to lack; a flag quantizes it too.
    body = release_body(variants={"gptq": {"scheme": "gptq-w4a16"}})
    release.write_text(json.dumps(body))
    assert "KV cache" not in run("validate")[1]
    release.write_text(json.dumps({**body, "serve": {"kv_cache_dtype": "fp8"}}))
    assert "quantized KV cache of 'gptq', 'gptq-mixed' cannot" in run("validate")[1]
    release.write_text(json.dumps(release_body()))
    # DVC reads every section, and the model must be there.
    (tmp_path / "dvc.yaml").write_text("")
    (tmp_path / "base").rmdir()
    code, _, err = run("validate")
    assert code == 3
    assert "tracking: dvc.yaml reads this section\n  mend: add `tracking: {}`" in err
    assert "model.source: base is no folder" in err
    ready = {"gptq": {"scheme": "gptq-w4a16", "checkpoint": "path:ready"}}
    release.write_text(json.dumps(release_body(variants=ready, sensitivity={}, fallback={})))
    assert "variants.gptq.checkpoint: ready is no folder" in run("validate")[2]
    release.write_text(json.dumps(release_body()))
    (tmp_path / "dvc.yaml").unlink()
    # Faults of two files in one run.
    rows.write_text("{}")
    (tmp_path / "calib" / "a.txt").unlink()
    code, _, err = run("validate")
    assert code == 3
    assert "math.jsonl" in err and "a.txt" in err
    # Settings that do not fit each other.
    body = release_body(
        sensitivity={"gptq": {}, "kv": {}},
        bench={"input_tokens": 500, "output_tokens": 13},
        serve={"max_model_len": 512},
        baseline={"serve": {"max_model_len": 513}},
    )
    (tmp_path / "configs" / "release.yaml").write_text(json.dumps(body))
    code, _, err = run("validate")
    assert code == 3
    assert "math.jsonl" in err
    assert "sensitivity.kv: 'kv' leaves weights at 16 bits" in err and "sensitivity.gptq" not in err
    assert "513 tokens, beyond the context of gptq, fp8, kv, gptq-mixed\n" in err


def test_evalset(run: Any, tmp_path: Path) -> None:
    write_workspace(tmp_path, release_body())
    (tmp_path / "calib" / "mix.yaml").write_text(
        "sources: {a: {file: a.txt, format: text, category: prose, weight: 1}}"
    )
    (tmp_path / "calib" / "a.txt").write_text("text")
    rows = tmp_path / "evalsets" / "business" / "math.jsonl"
    rows.write_text(
        '{"id": "1", "category": "math", "prompt": "1+1=", "reference": 2, "scorer": "numeric", "level": 1}'
    )
    code, out, err = run("evalset", "init", "own")
    assert (code, err) == (0, "")
    assert out.startswith("evalsets/business/own.yaml\nevalsets/business/own/")
    assert "qpipe evalset validate own" in out
    assert run("evalset", "validate") == (
        0,
        "mine: 1 rows; no faults\nown: 14 rows; no faults\n",
        "",
    )
    code, out, err = run("evalset", "preview", "own", "--rows", "1")
    assert (code, err) == (0, "")
    assert "facts-1 · exact · level 1" in out and "facts-2" not in out
    code, out, err = run("evalset", "init", "own")
    assert (code, out) == (3, "") and "is there already" in err
    with (tmp_path / "evalsets" / "business" / "own" / "math.jsonl").open("a") as file:
        file.write("{}\n")
    code, out, err = run("evalset", "validate", "own")
    assert (code, out) == (3, "")
    assert (
        "evalsets/business/own/math.jsonl:3: id: required field is missing\n  mend: add 'id'" in err
    )
    assert run("evalset", "validate", "mine")[0] == 0
    assert "did you mean 'mine'?" in run("evalset", "preview", "mien")[2]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (QpipeError("it broke", "mend it"), 1),
        (EnvError("it broke", "mend it"), 4),
        (WorkerError("it broke", "mend it"), 5),
        (EngineError("it broke", "mend it"), 5),
        (InvalidMeasurement("it broke", "mend it"), 6),
        (GateError("it broke", "mend it"), 7),
    ],
)
def test_exit_codes(
    run: Any, monkeypatch: pytest.MonkeyPatch, error: QpipeError, code: int
) -> None:
    monkeypatch.setattr(qpipe.envs, "sync", raising(error))
    assert run("env", "sync") == (code, "", "qpipe: it broke\n  mend: mend it\n")


def test_fault_of_qpipe_itself(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qpipe.envs, "sync", lambda *_: 1 / 0)
    code, _, err = run("env", "sync")
    assert code == 1
    assert "ZeroDivisionError: division by zero" in err and "`qpipe --debug …`" in err


def test_sync_takes_names(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(qpipe.envs, "sync", lambda names, *_: asked.append(names))
    run("env", "sync")
    run("env", "sync", "autoawq")
    assert asked == [["quantize", "serve"], ["autoawq"]]


def test_measure_passes_parts_and_progress(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_workspace(tmp_path, release_body())
    asked: list[Any] = []

    def note(config: Any, variant: str, progress: Any, only: Any) -> None:
        progress("working")
        asked.append((variant, tuple(only)))

    monkeypatch.setattr(qpipe.measure, "measure", note)
    code, out, err = run("measure", "gptq", "--only", "bench")
    assert (code, out) == (0, "")
    assert err.endswith(" s  working\n")  # plain lines where there is no terminal
    run("measure", "bf16")
    assert asked == [("gptq", ("bench",)), ("bf16", qpipe.measure.PARTS)]


def test_gate_prints_what_a_program_can_read(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_workspace(tmp_path, release_body())
    record = {"verdicts": {"gptq": {"verdict": "NO-GO"}}}

    def enforce(_: Any) -> None:
        raise GateError("gptq is NO-GO")

    monkeypatch.setattr(qpipe.gate, "gate", lambda _: record)
    monkeypatch.setattr(qpipe.gate, "enforce", enforce)
    assert run("gate")[:2] == (0, "NO-GO         gptq\n")
    code, out, err = run("gate", "--json", "--enforce")
    assert (code, err) == (7, "qpipe: gptq is NO-GO\n")
    assert json.loads(out) == record


# SIGINT is ignored where the tests themselves run in the background, SIGHUP under nohup.
LONG = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
import qpipe.envs
from qpipe.cli import main

def sync(*_):
    print("working", flush=True)
    time.sleep(60)

qpipe.envs.sync = sync
sys.argv = ["qpipe", "env", "sync"]
main()
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt(sent: signal.Signals, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LONG],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "working\n"
        os.kill(child.pid, sent)
        _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "run the command again to go on" in err
    assert "Traceback" not in err


def test_serve_asks_for_known_names(run: Any, tmp_path: Path) -> None:
    write_workspace(tmp_path, release_body())
    code, _, err = run("serve", "gptk")
    assert code == 3
    assert "there is no variant 'gptk'" in err and "one of: bf16, gptq" in err


def test_serve_tells_that_the_engine_died(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_workspace(tmp_path, release_body())
    died = EngineError("the engine died")
    server = SimpleNamespace(client=SimpleNamespace(base_url="http://x/v1"), wait=raising(died))
    monkeypatch.setattr(qpipe.serving, "plan_serving", lambda *_: None)
    monkeypatch.setattr(qpipe.serving, "start", lambda *_: nullcontext(server))
    code, _, err = run("serve", "gptq")
    assert code == 5
    assert "answers at http://x/v1" in err and "qpipe: the engine died" in err


def raising(error: Exception) -> Any:
    def fails(*_: Any) -> None:
        raise error

    return fails


@pytest.fixture
def dry(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A workspace with a model, on a machine without AVX-512."""
    monkeypatch.setattr("qpipe.hardware.detect", lambda: AVX2)
    workspace = write_workspace(tmp_path, release_body())
    write_model(workspace)
    return run


def test_dry_run(dry: Any, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    code, out, err = dry("quantize", "gptq", "--dry-run")
    assert (code, err) == (0, "")
    for said in (
        "scheme gptq-w4a16: GPTQ W4A16",
        "simulated: this CPU has no avx512f",
        "3 quantized, 0 restored to 16 bits, 0 left at 16 bits",
        "128 rows of 512 tokens",
        "no faults",
        "disk for the checkpoint and its dequantized twin",
        "memory to serve",
        "a rough size",
    ):
        assert said in out
    assert sorted(tmp_path.rglob("*")) == before


def test_dry_run_as_json(dry: Any) -> None:
    code, out, _ = dry("quantize", "gptq", "--dry-run", "--json")
    assert code == 0 and json.loads(out)["variant"] == "gptq"
    assert dry("quantize", "gptq", "--json")[0] == 2


def test_dry_run_without_room(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qpipe.forecast._forecast.disk_free", lambda _: 100)
    code, out, err = dry("quantize", "gptq", "--dry-run")
    assert code == 4 and "no" in out
    assert err.startswith("qpipe: not enough room: disk for the checkpoint") and "mend:" in err


def test_dry_run_of_what_does_not_fit(dry: Any, tmp_path: Path) -> None:
    path = tmp_path / "configs" / "schemes" / "gptq-w4a16.yaml"
    path.write_text(path.read_text().replace("group_size: 64", "group_size: 256"))
    code, out, err = dry("quantize", "gptq", "--dry-run")
    assert (code, out) == (3, "")
    assert "weights.group_size: 256 does not divide 128 inputs" in err


def test_calibrate(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_workspace(tmp_path, release_body())
    report = {"hash": "h", "samples": 2, "tokens": 8, "notes": ["a note"]}
    monkeypatch.setattr("qpipe.calibration.build_calibration", lambda *_: report)
    code, out, _ = run("calibrate")
    assert (code, out) == (0, "calib/mix.yaml: 2 rows of 8 tokens\n  note: a note\n")
    code, out, _ = run("calibrate", "--json")
    assert (code, json.loads(out)) == (0, report)

    listed = {"text": "mine.jsonl:1, prompt", "source": "a.txt", "shared": "eight words"}
    warning = {"group": "held-out/code", "reasons": ["far", "few"], "mend": "add code"}
    record = {
        "verdict": "warn",
        "mix": "calib/mix.yaml",
        "groups": {
            "held-out/code": {
                "tokens": 1200,
                "drawn_coverage": 0.5,
                "coverage_reference": None,
                "drawn_js": 0.5,
                "js_reference": 0.25,
                "scripts": {},
            }
        },
        "overlap": {"listed": [listed]},
        "notes": ["not compared"],
        "warnings": [warning],
    }
    monkeypatch.setattr("qpipe.coverage.check_calibration", lambda *_: record)
    code, out, _ = run("calibrate", "--check")
    assert code == 0  # a warning stops nothing
    for line in (
        "warning: held-out/code: far; few\n  mend: add code\n",
        "note: mine.jsonl:1, prompt and a.txt share 'eight words'\n",
        "note: not compared\n",
        "0.50 (0.25)",
        "calibration check: warn\n",
    ):
        assert line in out
    code, out, _ = run("calibrate", "--check", "--json")
    assert (code, json.loads(out)) == (0, record)
