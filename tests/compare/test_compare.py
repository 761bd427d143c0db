from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from qpipe.compare import compare
from qpipe.errors import InvalidMeasurement, MissingInput
from tests.records_fixture import CATEGORIES, measured, samples, write_samples


def test_record_and_csv(tmp_path: Path) -> None:
    config = measured(tmp_path)
    record = compare(config)
    assert record["variants"]["nvfp4"]["unsupported"].startswith("no NVFP4")
    gptq = record["variants"]["gptq"]
    assert gptq["paired"] == 160 and gptq["notes"] == []
    assert set(gptq["categories"]) == set(CATEGORIES)
    math = gptq["categories"]["math"]
    assert math["delta"] == pytest.approx(
        (math["wrong_to_right"] - math["right_to_wrong"]) / math["n"]
    )
    assert math["ci_low"] <= math["delta"] <= math["ci_high"]
    assert math["p_holm"] >= math["p_value"]
    assert math["truncated_share"] == math["truncated_share_baseline"] == 0.05
    assert gptq["speed"][-1]["output_tok_s_ratio"] == pytest.approx(1.43)
    assert gptq["speed"][-1]["ttft_p99_ms"] is None
    assert gptq["memory"]["weights_gib_ratio"] == pytest.approx(0.109 / 0.25)
    assert record["variants"]["fp8"]["speed"] == []
    assert json.loads(config.workspace.deltas.read_text())["variants"] == record["variants"]
    csv = pd.read_csv(config.workspace.deltas.with_suffix(".csv"))
    assert len(csv) == 5 * len(CATEGORIES)
    assert {"variant", "category", "delta", "p_holm", "kl_mean"} <= set(csv)


def test_rows_pair_by_hash_not_by_position(tmp_path: Path) -> None:
    config = measured(tmp_path)
    expected = compare(config)["variants"]["gptq"]["categories"]
    shuffled = samples("gptq", 40).sample(frac=1, random_state=1).reset_index(drop=True)
    write_samples(config.workspace, "gptq", shuffled)
    assert compare(config)["variants"]["gptq"]["categories"] == expected


def test_unpaired_rows_are_counted(tmp_path: Path) -> None:
    config = measured(tmp_path)
    rows = samples("gptq", 40)
    rows.loc[:4, "prompt_hash"] = "other"
    rows = rows[rows["category"] != "math"]
    write_samples(config.workspace, "gptq", rows)
    entry = compare(config)["variants"]["gptq"]
    assert (entry["unpaired_baseline"], entry["unpaired_variant"]) == (45, 5)
    assert entry["categories_missing"] == ["math"]
    assert "45 questions" in entry["notes"][0]


def test_equal_questions_pair_one_to_one(tmp_path: Path) -> None:
    config = measured(tmp_path)
    for name in ("bf16", "gptq"):
        rows = samples(name, 40)
        write_samples(config.workspace, name, pd.concat([rows, rows.head(3)]))
    assert compare(config)["variants"]["gptq"]["paired"] == 163


def test_nothing_to_pair(tmp_path: Path) -> None:
    config = measured(tmp_path)
    write_samples(config.workspace, "gptq", samples("gptq", 40).assign(target_hash="other"))
    with pytest.raises(InvalidMeasurement, match="gptq"):
        compare(config)


def test_unscored_sample(tmp_path: Path) -> None:
    config = measured(tmp_path)
    write_samples(config.workspace, "gptq", samples("gptq", 40).assign(score=float("nan")))
    with pytest.raises(InvalidMeasurement, match="score"):
        compare(config)


def test_not_measured(tmp_path: Path) -> None:
    config = measured(tmp_path)
    config.workspace.bench("rtn").unlink()
    with pytest.raises(MissingInput, match="qpipe measure rtn"):
        compare(config)
