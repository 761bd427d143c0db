from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from qpipe.config import Config, PublicSuite
from qpipe.coverage import _activations, check_calibration, check_table
from qpipe.errors import ConfigError, MissingInput
from qpipe.hardware import Gpu
from qpipe.records import SCHEMA_VERSION, read_json
from qpipe.room import GIB
from tests.conftest import FakeEnvironment
from tests.coverage.conftest import CHINESE, ENGLISH, NUMBERS, text
from tests.workspace_fixture import silent, write_checkpoint

Build = Callable[..., Config]
FITTING = {"prose": ENGLISH, "chinese": CHINESE, "math": NUMBERS}
GROUPS = ["mine/math", "held-out/chinese", "held-out/math", "held-out/prose"]


def warned(record: dict[str, Any]) -> dict[str, str]:
    return {each["group"]: "; ".join(each["reasons"]) for each in record["warnings"]}


def test_a_fitting_set_passes(build: Build) -> None:
    config = build(**FITTING)
    record = check_calibration(config, silent)
    assert record["verdict"] == "pass" and record["warnings"] == []
    assert list(record["groups"]) == GROUPS
    assert record["overlap"]["texts"] == 6 + 15 and record["overlap"]["leaks"] == 0
    written = read_json(config.workspace.calibration_check, "-")
    assert written == {"schema_version": SCHEMA_VERSION, **record}
    built = read_json(config.workspace.calibration("mix") / "report.json", "-")
    assert record["calibration_hash"] == built["hash"]
    console = Console(width=160, record=True, quiet=True)
    console.print(check_table(record))


def test_a_set_without_a_language_is_warned_of(build: Build) -> None:
    record = check_calibration(build(prose=ENGLISH, math=NUMBERS), silent)
    found = warned(record)
    assert record["verdict"] == "warn" and list(found) == ["held-out/chinese"]
    assert "100% of its letters are Han, 0.0% of calibration's" in found["held-out/chinese"]
    assert "of its tokens are in calibration" in found["held-out/chinese"]
    (warning,) = record["warnings"]
    assert "add a source of category 'chinese' in Han script to calib/mix.yaml" in warning["mend"]


def test_a_set_of_one_kind_is_warned_of(build: Build) -> None:
    record = check_calibration(build(math=NUMBERS), silent)
    assert set(warned(record)) == {"held-out/chinese", "held-out/prose"}


def test_a_category_that_has_too_little_is_to_be_raised(build: Build) -> None:
    # The category's own source has the wrong text.
    record = check_calibration(build(prose=ENGLISH, chinese=ENGLISH, math=NUMBERS), silent)
    mends = {each["group"]: each["mend"] for each in record["warnings"]}
    assert mends["held-out/chinese"].startswith("raise the weight of 'chinese' in calib/mix.yaml")


def test_a_leak_is_an_error_that_names_both_places(build: Build) -> None:
    config = build(text(ENGLISH, 0), prose=ENGLISH, math=NUMBERS, chinese=CHINESE)
    with pytest.raises(ConfigError) as caught:
        check_calibration(config, silent)
    (fault,) = caught.value.faults
    assert (fault.file, fault.key) == ("evalsets/heldout/prose.txt", "paragraph 1")
    assert "calib/prose.txt" in fault.message and "calibration mix" in fault.mend
    assert caught.value.exit_code == 3
    assert not config.workspace.calibration_check.exists()


def test_a_short_overlap_is_listed(build: Build) -> None:
    shared = " ".join(text(ENGLISH, 0).split()[:10])
    record = check_calibration(build(f"zebra {shared} zebra", **FITTING), silent)
    assert record["overlap"]["near"] >= 1
    listed = record["overlap"]["listed"][0]
    assert listed["text"] == "evalsets/heldout/prose.txt, paragraph 1"
    assert listed["source"] == "calib/prose.txt" and listed["shared"] in shared


def test_repeated_rows_are_warned_of(build: Build) -> None:
    config = build(**FITTING)
    path = config.workspace.calibration("mix") / "calib.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:10], *lines[:2]]))
    (warning,) = check_calibration(config, silent)["warnings"]
    assert warning["group"] is None and warning["reasons"] == ["2 of 12 rows repeat another one"]


def test_lengths_that_rows_never_reach_are_noted(build: Build) -> None:
    record = check_calibration(build(**FITTING), silent)
    wanted = "100% of held-out/prose are longer than rows of 64"
    assert any(wanted in note for note in record["notes"])
    assert not any("100% of mine/math are longer" in note for note in record["notes"])
    assert record["calibration"]["lengths"]["prose"]["longest"] > 64


def test_one_category_alone_is_not_judged_by_others(build: Build) -> None:
    config = build(math=NUMBERS)
    for name in ("prose", "chinese"):
        (config.workspace.root / f"evalsets/heldout/{name}.txt").unlink()
    record = check_calibration(config, silent)
    assert record["verdict"] == "pass"
    assert record["groups"]["mine/math"]["coverage_reference"] is None
    assert "held-out/math has no other category beside it to compare with" in record["notes"]


def test_nothing_built(build: Build) -> None:
    config = build(**FITTING)
    (config.workspace.calibration("mix") / "report.json").unlink()
    with pytest.raises(MissingInput, match="qpipe calibrate"):
        check_calibration(config, silent)


@pytest.fixture
def asked(
    monkeypatch: pytest.MonkeyPatch, make_environment: FakeEnvironment
) -> list[dict[str, Any]]:
    """Requests that a stand-in for the worker got; it finds Chinese beyond calibration."""
    make_environment("quantize")
    requests: list[dict[str, Any]] = []

    def worker(env: str, name: str, request: dict[str, Any], *_: Any) -> dict[str, Any]:
        assert (env, name) == ("quantize", "coverage")
        requests.append(request)
        groups = {}
        for each in set(request["sets"]) - {"calibration"}:
            bad = each == "held-out/chinese"
            groups[each] = {
                "exceeding": 0.02 if bad else 0.004,
                "exceeding_reference": 0.005,
                "worst_module": "layers.3.down_proj",
                "worst_exceeding": 0.3,
                "similarity": 0.92 if bad else 0.97,
                "similarity_reference": 0.97,
                "least_similar_module": "layers.0.q_proj",
                "least_similarity": 0.8,
                "tokens": 400,
            }
        return {"groups": groups, "modules": 3, "seconds": 1.0}

    monkeypatch.setattr(_activations, "run_worker", worker)
    return requests


def with_weights(config: Config) -> Config:
    made = write_checkpoint(config.workspace.root / "weights")
    for name in ("config.json", "model.safetensors"):
        (made / name).rename(config.workspace.model / name)
    return config


@pytest.mark.parametrize("short", ["memory", "GPU memory"])
def test_activations_are_left_out_where_the_model_has_no_room(
    build: Build, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, short: str
) -> None:
    gpu = Gpu("0", "G", "T4", 7.5, used_mib=600, total_mib=1624)
    monkeypatch.setattr(_activations, "visible_gpus", lambda: [gpu] if "GPU" in short else [])
    monkeypatch.setattr(_activations, "memory_free", lambda: (64 if "GPU" in short else 1) * GIB)
    record = check_calibration(with_weights(build(**FITTING)), silent)
    assert asked == [] and record["verdict"] == "pass"
    assert record["activations"]["left_out"].startswith(f"{short} to compare activations: 1.00 GiB")


def test_activations_beyond_calibration_are_warned_of(
    build: Build, asked: list[dict[str, Any]]
) -> None:
    config = with_weights(build(**FITTING))
    record = check_calibration(config, silent)
    found = warned(record)
    assert list(found) == ["held-out/chinese"]
    assert "2.0% of input channels" in found["held-out/chinese"]
    assert "30% in layers.3.down_proj" in found["held-out/chinese"]
    assert record["activations"] == {"factor": 1.5, "modules": 3, "seconds": 1.0}
    assert "activations" not in record["groups"]["mine/math"]
    (request,) = asked
    assert all(name.startswith("model.layers.0.") for name in request["modules"])
    assert set(request["sets"]) == {"calibration", *GROUPS[1:]}
    assert len(request["sets"]["calibration"]) == 12
    for name, rows in request["sets"].items():
        assert rows and all(row[0] == 0 for row in rows), name  # BOS
        assert sum(map(len, rows)) <= _activations.TOKENS + 64


@pytest.mark.parametrize("ready", [True, False])
def test_activations_are_left_out_with_a_reason(
    build: Build, make_environment: FakeEnvironment, ready: bool
) -> None:
    if ready:
        make_environment("quantize")
    record = check_calibration(build(**FITTING), silent)
    wanted = "qpipe model" if ready else "qpipe env sync"
    assert wanted in record["activations"]["left_out"]
    assert any(wanted in note for note in record["notes"])


def test_public_suites_are_not_passed_over_in_silence(build: Build) -> None:
    config = build(**FITTING)
    suite = PublicSuite.model_validate({"kind": "public", "tasks": {"x": {"category": "math"}}})
    config.suites["mmlu"] = suite  # type: ignore[index]
    assert any("'mmlu' is not compared" in n for n in check_calibration(config, silent)["notes"])
