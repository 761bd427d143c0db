"""The whole way, once, with real quantization and a real vLLM server."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import psutil
import pytest
from mlflow.tracking import MlflowClient

from tests.engine.conftest import ENVS

pytestmark = pytest.mark.engine

Qpipe = Callable[..., subprocess.CompletedProcess[str]]
MADE = ("w8a8", "w4a16", "kv8", "fp8", "kv4")
VARIANTS = ("bf16", *MADE, "w4a16-mixed")


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def released(workspace: Path, qpipe: Qpipe) -> Path:
    qpipe("validate")
    qpipe("model")
    qpipe("calibrate")
    for variant in MADE:
        qpipe("quantize", variant)
    qpipe("sensitivity", "w4a16")
    qpipe("quantize", "w4a16-mixed")
    for variant in VARIANTS:
        qpipe("measure", variant)
    for stage in ("compare", "gate", "report", "track"):
        qpipe(stage)
    return workspace / "out"


@pytest.fixture
def copied(released: Path, tmp_path: Path) -> Path:
    """The released workspace once more, to be changed."""
    return shutil.copytree(released.parent, tmp_path / "copied", symlinks=True)


def test_checkpoints_are_smaller_than_the_model(released: Path) -> None:
    sizes = {
        name: read(released / "models" / name / "manifest.json")["weights_gib"]
        for name in (*MADE, "w4a16-mixed")
    }
    base = read(released / "model" / "manifest.json")["weights_gib"]
    assert sizes["w4a16"] < sizes["w4a16-mixed"] < base
    assert sizes["w4a16"] < sizes["w8a8"] < base


def test_the_fallback_leaves_out_the_worst_units_whole(released: Path) -> None:
    ranked = read(released / "fidelity" / "units" / "w4a16.json")
    restored = read(released / "models" / "w4a16-mixed" / "manifest.json")["restored"]
    worst = [module for row in ranked["units"][:4] for module in row["modules"]]
    assert restored == worst
    assert ranked["control_kl"] == 0.0
    assert [row["kl"] for row in ranked["units"]] == sorted(
        (row["kl"] for row in ranked["units"]), reverse=True
    )


def test_fidelity_orders_the_variants(released: Path) -> None:
    kl = {name: read(released / "fidelity" / f"{name}.json")["kl_mean"] for name in VARIANTS}
    assert kl["bf16"] == 0.0
    assert 0 < kl["w8a8"] < kl["w4a16"]
    assert 0 < kl["kv8"] < kl["w4a16"]
    assert 0 < kl["fp8"] < kl["w4a16"]
    assert kl["kv8"] < kl["kv4"]
    assert kl["w4a16-mixed"] < kl["w4a16"]


def test_kl_of_the_likeliest_tokens_is_a_lower_bound(
    released: Path, copied: Path, qpipe: Qpipe
) -> None:
    """Top 32 of 320 tokens against all of them, and against transformers in float32."""
    release = copied / "configs" / "release.yaml"
    text = release.read_text(encoding="utf-8")
    release.write_text(text.replace("top_k: 32,", "top_k: 320,"), encoding="utf-8")
    for variant in ("bf16", "w4a16"):
        qpipe("fidelity", variant, folder=copied)
    script = Path(__file__).with_name("full_kl.py")
    folders = [copied / "tiny", copied / "out" / "models" / "w4a16"]
    texts = copied / "evalsets" / "heldout" / "prose.txt"
    done = subprocess.run(
        [ENVS / "quantize" / "bin" / "python", script, *folders, texts, "64", "2"],
        check=True,
        capture_output=True,
        text=True,
    )
    exact = float(done.stdout.splitlines()[-1])
    (some, whole) = (
        read(folder / "fidelity" / "w4a16.json")["kl_mean"] for folder in (released, copied / "out")
    )
    assert 0.3 * whole < some <= whole
    assert whole == pytest.approx(exact, rel=0.05)


def test_every_question_has_a_row(released: Path) -> None:
    for name in VARIANTS:
        samples = pd.read_parquet(released / "eval" / name / "samples.parquet")
        assert samples.groupby("category").size().to_dict() == {"math": 4, "yesno": 4}


def test_what_is_exercised_is_read_from_the_engine(released: Path) -> None:
    for name in VARIANTS:
        tasks = read(released / "eval" / name / "results.json")["tasks"]
        math, yesno = (tasks[f"tiny-{task}"]["exercises"] for task in ("math", "yesno"))
        assert math["requests"] == 4 and math["prefill_tokens"] > 0 and math["decode_tokens"] > 0
        # Two choices a question, by likelihood: nothing is decoded.
        assert yesno["requests"] == 8 and yesno["prefill_tokens"] > 0
        assert yesno["decode_tokens"] == 0


def test_what_reads_the_quantized_cache_is_probed(released: Path) -> None:
    entry = read(released / "compare" / "deltas.json")["variants"]["kv8"]
    # The attention that this model gets writes keys and values into the cache and reads them there.
    assert entry["kv"]["prefill_reads_cache"] is True
    assert entry["kv"]["decode_vs_prefill"]["positions"] > 0
    verdict = read(released / "gate.json")["verdicts"]["kv8"]
    assert verdict["verdict"] == "INCONCLUSIVE"
    assert "no long-context question was asked" in verdict["reasons"][0]


def test_native_variants_have_speed_and_simulated_ones_do_not(released: Path) -> None:
    for name in VARIANTS:
        record = read(released / "bench" / f"{name}.json")
        if record["provenance"]["mode"] == "native":
            assert all(level["output_tok_s"] > 0 for level in record["levels"])
            assert record["memory"]["kv_capacity_tokens"] > 0
        else:
            assert record["levels"] == []
    assert read(released / "bench" / "bf16.json")["provenance"]["mode"] == "native"


def test_the_kernels_are_read_from_the_engine(released: Path) -> None:
    native = {"w8a8": "CPUInt8ScaledMMLinearKernel", "w4a16": "CPUWNA16LinearKernel"}
    for name, kernel in native.items():
        provenance = read(released / "fidelity" / f"{name}.json")["provenance"]
        if provenance["mode"] == "native":
            gpus = provenance["hardware"]["gpus"]
            assert provenance["kernels"] if gpus else kernel in provenance["kernels"]


def test_a_saved_checkpoint_was_read_back(released: Path) -> None:
    for name in ("w8a8", "w4a16", "kv8", "w4a16-mixed"):
        manifest = read(released / "models" / name / "manifest.json")
        done = manifest["quantize"]
        assert done["peak_memory_gib"]["host"] > 0
        assert 0 <= done["smoke"]["kl"] < 3
        if name != "kv8":
            assert set(done["weight_errors"]) == set(manifest["modules"])
            assert all(0 < error < 0.5 for error in done["weight_errors"].values())


def test_a_ready_made_checkpoint_is_judged_like_one_made_here(
    released: Path, copied: Path, qpipe: Qpipe
) -> None:
    release = copied / "configs" / "release.yaml"
    text = release.read_text(encoding="utf-8")
    entry = '  ready: {scheme: gptq-w4a16, checkpoint: "path:theirs"}\n'
    release.write_text(text.replace("variants:\n", f"variants:\n{entry}"), encoding="utf-8")
    shutil.copytree(released / "models" / "w4a16", copied / "theirs")
    (copied / "theirs" / "manifest.json").unlink()
    qpipe("quantize", "ready", folder=copied)
    qpipe("fidelity", "ready", folder=copied)
    made, found = (
        read(copied / "out" / "fidelity" / f"{name}.json") for name in ("w4a16", "ready")
    )
    assert found["kl_mean"] == pytest.approx(made["kl_mean"], rel=0.02)
    assert found["provenance"]["mode"] == made["provenance"]["mode"]


def test_verdicts_reports_and_runs_exist(released: Path) -> None:
    verdicts = read(released / "gate.json")["verdicts"]
    assert set(verdicts) == set(VARIANTS)
    page = (released / "report" / "index.html").read_text(encoding="utf-8")
    assert all(name in page for name in VARIANTS)
    track = read(released / "track.json")
    client = MlflowClient(track["uri"])
    assert client.get_run(track["run_id"]).info.status == "FINISHED"


def test_no_engine_is_left(released: Path) -> None:
    marks = (str(released.parent), "VLLM::")
    left = [
        process.info["cmdline"]
        for process in psutil.process_iter(["cmdline"])
        if any(mark in " ".join(process.info["cmdline"] or []) for mark in marks)
    ]
    assert left == []
