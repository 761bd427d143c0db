from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from qpipe.compare import compare
from qpipe.config import Config
from qpipe.errors import InvalidMeasurement, MissingInput
from qpipe.records import digest, read_json, write_json
from tests.records_fixture import (
    CATEGORIES,
    HARDWARE,
    cached_in_fp8,
    left_out,
    measured,
    provenance,
    samples,
    texts,
    with_texts,
    write_samples,
)


def test_record_and_csv(tmp_path: Path) -> None:
    config = measured(tmp_path)
    record = compare(config)
    assert record["variants"]["nvfp4"]["unsupported"].startswith("no NVFP4")
    gptq = record["variants"]["gptq"]
    assert gptq["paired"] == 160 and gptq["notes"] == gptq["mismatches"] == []
    assert set(gptq["categories"]) == set(CATEGORIES)
    math = gptq["categories"]["math"]
    assert math["delta"] == pytest.approx(
        (math["wrong_to_right"] - math["right_to_wrong"]) / math["n"]
    )
    assert math["ci_low"] <= math["delta"] <= math["ci_high"]
    assert math["p_holm"] >= math["p_value"]
    assert math["truncated_share"] == math["truncated_share_baseline"] == 0.05
    assert math["answers"] == 40
    assert math["truncated_excess_ci_low"] < 0 < math["truncated_excess_ci_high"]
    assert gptq["speed"][-1]["output_tok_s_ratio"] == pytest.approx(1.43)
    assert gptq["speed"][-1]["ttft_p99_ms"] is None
    assert gptq["memory"]["weights_gib_ratio"] == pytest.approx(0.109 / 0.25)
    assert record["variants"]["fp8"]["speed"] == []
    assert json.loads(config.workspace.deltas.read_text())["variants"] == record["variants"]
    assert gptq["lengths"] == {} and gptq["retrieval"] == []
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


def edit(path: Path, **changes: Any) -> None:
    write_json(path, {**read_json(path, "-"), **changes})


@pytest.mark.parametrize("name", ["gptq", "bf16"])
@pytest.mark.parametrize("part", ["fidelity", "evaluation", "bench"])
@pytest.mark.parametrize("found", ["other", None])
def test_records_of_two_checkpoints(
    tmp_path: Path, name: str, part: str, found: str | None
) -> None:
    config = measured(tmp_path)
    workspace = config.workspace
    if part == "evaluation":
        edit(workspace.evaluation(name) / "results.json", checkpoint_hash=found)
    else:
        path = workspace.fidelity(name) if part == "fidelity" else workspace.bench(name)
        edit(path, provenance={**provenance(name), "checkpoint_hash": found})
    with pytest.raises(InvalidMeasurement, match=f"records of '{name}' .* {part} of") as caught:
        compare(config)
    assert caught.value.mend == f"run `qpipe measure {name}`"


@pytest.mark.parametrize("against", [digest("another model"), None])
def test_kl_against_a_former_baseline(tmp_path: Path, against: str | None) -> None:
    config = measured(tmp_path)
    edit(config.workspace.fidelity("gptq"), baseline_checkpoint_hash=against)
    with pytest.raises(InvalidMeasurement, match="KL of 'gptq' is against") as caught:
        compare(config)
    assert caught.value.mend == "run `qpipe measure gptq`"


def test_mismatches(tmp_path: Path) -> None:
    config = measured(tmp_path)
    workspace = config.workspace
    newer = {**provenance("gptq"), "engine_version": "0.33.0"}
    edit(workspace.fidelity("gptq"), provenance=newer, data_hash="other")
    edit(workspace.evaluation("gptq") / "results.json", context=newer)
    machine = {**HARDWARE.record(), "cores": 4, "memory_gib": 31.0}
    edit(workspace.bench("w8a8"), provenance={**provenance("w8a8"), "hardware": machine})
    edit(workspace.bench("rtn"), data_hash="other")
    edit(workspace.stability("fp8"), data_hash="other")
    variants = compare(config)["variants"]
    assert {name: variants[name]["mismatches"] for name in ("gptq", "w8a8", "rtn", "fp8")} == {
        "gptq": [
            "engine version 0.33.0 against the baseline's 0.32.0",
            "the fidelity texts differ from the baseline's",
        ],
        "w8a8": ["cores 4 against the baseline's 2"],
        "rtn": ["the load of the bench differs from the baseline's"],
        "fp8": ["the sampled questions differ from the baseline's"],
    }


def test_truncation_leaves_out_what_likelihood_judges(tmp_path: Path) -> None:
    config = measured(tmp_path)
    rows = samples("gptq", 40)
    # Half of the questions of one category are judged by likelihood, and two answers are cut.
    rows.loc[(rows["category"] == "math") & (rows.index % 2 == 1), "finish_reason"] = None
    write_samples(config.workspace, "gptq", rows)
    record = compare(config)
    math = record["variants"]["gptq"]["categories"]["math"]
    assert (math["n"], math["answers"]) == (40, 20)
    assert math["truncated_share"] == math["truncated_share_baseline"] == 0.1
    judged = record["variants"]["gptq"]["categories"]["low-resource"]
    assert judged["answers"] == 0
    assert judged["truncated_share"] is judged["truncated_excess_ci_high"] is None
    assert record["baseline"]["categories"]["low-resource"]["truncated_share"] is None
    assert record["baseline"]["categories"]["math"]["truncated_share"] == 0.05


def test_rankings_are_copied_and_not_needed(tmp_path: Path) -> None:
    config = measured(tmp_path)
    units = compare(config)["sensitivity"]["gptq"]
    assert units[0]["unit"] == "layers.29.mlp.down_proj"
    shutil.rmtree(config.workspace.sensitivity("x").parent)
    assert compare(config)["sensitivity"] == {}


def test_not_measured(tmp_path: Path) -> None:
    config = measured(tmp_path)
    config.workspace.bench("rtn").unlink()
    with pytest.raises(MissingInput, match="qpipe measure rtn"):
        compare(config)


def test_records_of_another_scheme(tmp_path: Path) -> None:
    config = measured(tmp_path)
    schemes = {**config.schemes, "w8a8": config.schemes["fp8"]}
    with pytest.raises(InvalidMeasurement, match="'w8a8' was measured with another scheme"):
        compare(replace(config, schemes=schemes))


def test_a_checkpoint_that_was_built_again(tmp_path: Path) -> None:
    config = measured(tmp_path)
    manifest = config.workspace.checkpoint("gptq") / "manifest.json"
    write_json(manifest, {"checkpoint_hash": digest("gptq")})
    compare(config)
    write_json(manifest, {"checkpoint_hash": digest("later")})
    with pytest.raises(InvalidMeasurement, match="'gptq' was built again") as caught:
        compare(config)
    assert caught.value.mend == "run `qpipe measure gptq`"


@pytest.mark.parametrize("change", ["scores", "rows", "task"])
def test_rows_that_are_not_those_of_their_results(tmp_path: Path, change: str) -> None:
    config = measured(tmp_path)
    rows = samples("gptq", 40)
    if change == "scores":
        rows = rows.assign(score=1.0)
    else:
        rows = rows[rows["task"] != "math-task"] if change == "task" else rows.iloc[1:]
    rows.to_parquet(config.workspace.evaluation("gptq") / "samples.parquet")
    with pytest.raises(InvalidMeasurement, match="are not those of its results"):
        compare(config)


def test_categories_that_were_not_asked_are_a_mismatch(tmp_path: Path) -> None:
    config = measured(tmp_path)
    rows = samples("gptq", 40)
    write_samples(config.workspace, "gptq", rows[rows["category"] != "math"])
    found = compare(config)["variants"]["gptq"]["mismatches"]
    assert found == ["no question of math was asked of both"]


def twice(config: Config, flipped: int, kl: float) -> None:
    """Let the baseline's second run differ in ``flipped`` answers a category and by ``kl``."""
    workspace = config.workspace
    again = samples("bf16", 40)
    flip = again.groupby("category").cumcount() < flipped
    write_samples(
        workspace, "bf16/again", again.assign(score=again["score"].where(~flip, 1 - again["score"]))
    )
    floor = {"kl_mean": kl, "kl_ci_low": kl / 2, "kl_ci_high": kl * 2, "categories": {}}
    edit(workspace.fidelity("bf16"), noise={"order": "reverse", "concurrency": 2, **floor})


def test_differences_stand_beside_the_noise_of_two_baseline_runs(tmp_path: Path) -> None:
    config = measured(tmp_path)
    twice(config, flipped=2, kl=0.015)
    record = compare(config)
    assert record["noise"]["evaluation"]["math"]["disagreement"] == 2 / 40
    assert record["noise"]["fidelity"]["kl_mean"] == 0.015
    near, far = record["variants"]["w8a8"], record["variants"]["rtn"]
    assert near["categories"]["math"]["inside_noise"] and not far["overall"]["inside_noise"]
    assert any("indistinguishable" in note for note in near["notes"])
    assert not any("indistinguishable" in note for note in far["notes"])


def test_without_a_second_run_there_is_no_noise_floor(tmp_path: Path) -> None:
    record = compare(measured(tmp_path))
    assert record["noise"] == {"fidelity": None, "evaluation": None}
    assert record["variants"]["gptq"]["overall"]["inside_noise"] is None


def test_flips_of_wrong_answers(tmp_path: Path) -> None:
    config = measured(tmp_path)
    rows = samples("gptq", 40)
    wrong = rows["score"] == 0
    write_samples(
        config.workspace, "gptq", rows.assign(response=rows["response"].where(~wrong, "y"))
    )
    both_wrong = int((wrong & (samples("bf16", 40)["score"] == 0)).sum())
    part = compare(config)["variants"]["gptq"]["overall"]
    assert part["wrong_to_other_wrong"] == both_wrong > 0
    assert part["right_to_wrong"] + part["wrong_to_right"] == round(
        part["disagreement"] * part["n"]
    )


PLACES = {0: "template:x,tokens:10k,depth:10", 1: "tokens:400,depth:90", 2: "tokens:9k"}


def placed(name: str, failing: str) -> pd.DataFrame:
    """40 questions of one category at each length; the variant fails where it is ``failing``."""
    rows = samples("bf16", 120)
    rows = rows[rows["category"] == "math"].assign(score=1.0)
    tags = pd.Series([PLACES[index % 3] for index in range(len(rows))], rows.index)
    fails = tags.str.contains(f"tokens:{failing}") & (name != "bf16")
    return rows.assign(tags=tags, score=rows["score"].where(~fails, 0.0))


def test_planted_facts_by_length_and_depth(tmp_path: Path) -> None:
    config = measured(tmp_path)
    for name in ("bf16", "gptq"):
        write_samples(config.workspace, name, placed(name, failing="10k"))
    record = compare(config)
    near = {"length": "400", "depth": 90, "n": 40, "score": 1.0}
    far = {"length": "10k", "depth": 10, "n": 40}
    # A question without a depth has its length, and no place in the map.
    assert record["baseline"]["retrieval"] == [near, {**far, "score": 1.0}]
    lengths = record["baseline"]["lengths"]
    assert list(lengths) == ["400", "9k", "10k"] and lengths["9k"] == {"n": 40, "score": 1.0}
    gptq = record["variants"]["gptq"]
    assert gptq["retrieval"] == [
        {**near, "score_baseline": 1.0, "delta": 0.0},
        {**far, "score": 0.0, "score_baseline": 1.0, "delta": -1.0},
    ]
    assert list(gptq["lengths"]) == ["400", "9k", "10k"]
    kept, lost = gptq["lengths"]["9k"], gptq["lengths"]["10k"]
    assert kept["delta"] == 0 and kept["ci_low"] < 0 < kept["ci_high"]
    assert lost["delta"] == -1 and lost["ci_high"] < lost["ci_high_all"] < -0.7
    assert lost["p_holm"] == pytest.approx(3 * lost["p_value"])
    assert gptq["long_context"] == {"questions": 120, "answers": 120}
    csv = pd.read_csv(config.workspace.deltas.with_suffix(".csv"))
    rows = csv[(csv["variant"] == "gptq") & csv["length"].notna()]
    assert list(rows["length"]) == ["400", "9k", "10k"] and rows["category"].isna().all()


def test_long_context_questions_are_those_with_a_length_or_of_the_category(tmp_path: Path) -> None:
    config = measured(tmp_path)
    for name in ("bf16", "gptq"):
        rows = samples(name, 40)
        # As a public task would be; those of low-resource are judged by likelihood.
        rows["category"] = rows["category"].replace({"math": "long-context"})
        tagged = rows["category"].eq("low-resource")
        rows["tags"] = rows["tags"].where(~tagged, "tokens:4k")
        write_samples(config.workspace, name, rows)
    gptq = compare(config)["variants"]["gptq"]
    assert gptq["long_context"] == {"questions": 80, "answers": 40}
    assert list(gptq["lengths"]) == ["4k"] and gptq["retrieval"] == []
    assert compare(measured(tmp_path))["variants"]["gptq"]["long_context"]["questions"] == 0


def test_questions_of_one_cluster_count_as_one(tmp_path: Path) -> None:
    config = measured(tmp_path)
    alone = compare(config)["variants"]["rtn"]["overall"]
    for name in ("bf16", "rtn"):
        rows = samples(name, 40)
        cluster = "cluster:" + (rows.groupby("category").cumcount() // 10).astype(str)
        write_samples(config.workspace, name, rows.assign(cluster=cluster))
    part = compare(config)["variants"]["rtn"]["overall"]
    assert "over 16 clusters" in part["method"] and "clusters" not in alone["method"]
    assert part["ci_high"] - part["ci_low"] >= alone["ci_high"] - alone["ci_low"] - 1e-9


def test_sampled_answers_are_compared_question_by_question(tmp_path: Path) -> None:
    record = compare(measured(tmp_path))
    part = record["variants"]["rtn"]["stability"]
    assert part["questions"] == 32 and part["samples"] == 4
    assert part["score_variance"]["baseline"] == pytest.approx(0.1)
    assert part["score_variance"]["delta"] == pytest.approx(0.25 * 1.5)
    assert part["degenerate"]["ci_low"] > 0
    assert set(part["kinds"]) == {"cut", "loop"}
    assert record["variants"]["nvfp4"].get("stability") is None


def test_sampled_questions_of_one_template_count_less(tmp_path: Path) -> None:
    config = measured(tmp_path)

    def width() -> float:
        part = compare(config)["variants"]["rtn"]["stability"]["degenerate"]
        return float(part["ci_high"] - part["ci_low"])

    alone = width()
    for name in ("bf16", "rtn"):
        path = config.workspace.stability(name)
        questions = read_json(path, "-")["questions"]
        edit(path, questions=[{**one, "cluster": f"core/{one['id']}"} for one in questions])
    assert width() > alone


def test_without_samples_there_is_no_stability(tmp_path: Path) -> None:
    config = measured(tmp_path)
    edit(config.workspace.stability("gptq"), questions=[])
    assert compare(config)["variants"]["gptq"]["stability"] is None


def test_fields_are_shown_with_the_greatest_loss_first(tmp_path: Path) -> None:
    config = measured(tmp_path)

    def field(f1: float | None) -> dict[str, Any]:
        return {"wanted": 4 if f1 is not None else 0, "precision": f1, "recall": f1, "f1": f1}

    for name, date, extra in (("bf16", 0.9, None), ("gptq", 0.4, None), ("rtn", 0.9, 0.5)):
        path = config.workspace.evaluation(name) / "results.json"
        tasks = read_json(path, "-")["tasks"]
        task = next(iter(tasks))
        tasks[task]["fields"] = {"name": field(0.8), "date": field(date), "extra": field(extra)}
        edit(path, tasks=tasks)
    found = compare(config)["variants"]["gptq"]["fields"]
    assert [(row["field"], row["f1"], row["f1_baseline"]) for row in found] == [
        ("date", 0.4, 0.9),
        ("name", 0.8, 0.8),
    ]
    found = compare(config)["variants"]["rtn"]["fields"]
    assert [(row["field"], row["f1_baseline"]) for row in found][-1] == ("extra", None)


def test_what_each_part_exercises(tmp_path: Path) -> None:
    config = measured(tmp_path)
    rows = samples("gptq", 40)
    # Two tasks of one category.
    rows.loc[(rows["category"] == "math") & (rows.index % 2 == 1), "task"] = "more-math"
    write_samples(config.workspace, "gptq", rows)
    record = compare(config)
    found = record["variants"]["gptq"]["exercises"]
    assert set(found) == {*CATEGORIES, "fidelity texts", "sampled answers"}
    assert found["math"] == {
        "prefill_tokens": 4000,
        "cached_tokens": 640,
        "decode_tokens": 760,
        "requests": 40,
    }
    assert found["fidelity texts"]["decode_tokens"] == 0
    assert found["sampled answers"]["requests"] == 128
    assert record["baseline"]["exercises"]["math"] == found["math"]


# The baseline's own decode and prefill differ by 2e-4 [1e-4, 4e-4].
@pytest.mark.parametrize(
    ("kl", "reads"), [(2e-4, True), (7e-4, True), (2e-3, False), (8e-3, False), (None, None)]
)
def test_whether_prefill_reads_the_quantized_cache(
    tmp_path: Path, kl: float | None, reads: bool | None
) -> None:
    config = measured(tmp_path)
    cached_in_fp8(config, "w8a8", kl)
    entry = compare(config)["variants"]["w8a8"]
    assert entry["kv"]["format"] == "fp8" and entry["kv"]["prefill_reads_cache"] is reads
    (note,) = [note for note in entry["notes"] if "fp8" in note]
    said = {True: "read the same fp8", False: "does not read the fp8", None: "is not known"}
    assert said[reads] in note
    if kl is not None:
        assert f"{kl:g} [{kl / 2:g}, {kl * 2:g}]" in note
        assert "own 0.0002 [0.0001, 0.0004]" in note


def test_a_difference_that_is_nothing_beside_a_floor_of_nothing(tmp_path: Path) -> None:
    config = measured(tmp_path)
    cached_in_fp8(config, "bf16", 1e-12, kv="fp32")
    for kl, reads in ((2e-6, True), (2e-5, False)):
        cached_in_fp8(config, "w8a8", kl)
        assert compare(config)["variants"]["w8a8"]["kv"]["prefill_reads_cache"] is reads


def test_a_baseline_whose_cache_is_quantized_is_no_floor(tmp_path: Path) -> None:
    config = measured(tmp_path)
    cached_in_fp8(config, "bf16", 2e-4)
    cached_in_fp8(config, "w8a8", 2e-4)
    variants = compare(config)["variants"]
    assert variants["w8a8"]["kv"]["prefill_reads_cache"] is None
    assert variants["gptq"]["kv"] is None


def test_empty_answers_are_told_where_they_are_more_than_the_baselines(tmp_path: Path) -> None:
    config = measured(tmp_path)
    for name, count in (("bf16", 1), ("gptq", 3), ("w8a8", 1)):
        rows = samples(name, 40)
        blank = rows["category"].eq("math") & rows["doc_id"].astype(int).lt(count)
        rows["empty"] = rows["empty"].where(~blank, True)
        write_samples(config.workspace, name, rows)
    record = compare(config)
    math = record["variants"]["gptq"]["categories"]["math"]
    assert (math["answers"], math["empty"], math["empty_baseline"]) == (40, 3, 1)
    assert record["baseline"]["categories"]["math"]["empty"] == 1
    told = "more answers are empty than of the baseline: math 3 of 40 (baseline 1)"
    assert told in record["variants"]["gptq"]["notes"]
    assert not any("empty" in note for note in record["variants"]["w8a8"]["notes"])


def test_prompts_that_begin_otherwise_are_a_mismatch(tmp_path: Path) -> None:
    config = measured(tmp_path)
    for name, share in (("bf16", 1.0), ("gptq", 0.0), ("w8a8", 1.0), ("rtn", None)):
        path = config.workspace.evaluation(name) / "results.json"
        tasks = read_json(path, "-")["tasks"]
        tasks["math-task"]["bos"] = {"ids": [1], "share": share}
        edit(path, tasks=tasks)
    variants = compare(config)["variants"]
    assert {name: variants[name]["mismatches"] for name in ("gptq", "w8a8", "rtn")} == {
        "gptq": ["BOS begins 0% of the prompts of math-task against the baseline's 100%"],
        "w8a8": [],
        "rtn": [],
    }


def test_log_likelihoods_have_a_unit_and_no_mean_with_shares(tmp_path: Path) -> None:
    config = measured(tmp_path)
    before = compare(config)
    with_texts(config)
    record = compare(config)
    gptq, base = record["variants"]["gptq"], record["baseline"]
    assert gptq["overall"] == before["variants"]["gptq"]["overall"]
    assert base["overall"] == before["baseline"]["overall"]
    modelling = gptq["categories"]["language-modelling"]
    assert modelling["unit"] == base["categories"]["language-modelling"]["unit"] == "nats a word"
    assert modelling["score_baseline"] == pytest.approx(texts("bf16")["score"].mean())
    assert modelling["delta"] == pytest.approx(-0.05, abs=0.01)
    assert modelling["right_to_wrong"] == 40 and modelling["wrong_to_other_wrong"] is None
    assert modelling["answers"] == 0 and modelling["truncated_share"] is None
    assert gptq["categories"]["math"]["unit"] is None
    assert "unit" in pd.read_csv(config.workspace.deltas.with_suffix(".csv"))


def test_without_shares_there_is_no_overall(tmp_path: Path) -> None:
    config = measured(tmp_path)
    for name in config.release.names:
        if name != "nvfp4":
            write_samples(config.workspace, name, texts(name))
    record = compare(config)
    assert record["baseline"]["overall"] == {"n": 0, "unit": None, "score": None}
    assert "overall" not in record["variants"]["gptq"]
    assert list(record["variants"]["gptq"]["categories"]) == ["language-modelling"]


def test_tasks_left_out_of_both_are_noted(tmp_path: Path) -> None:
    config = measured(tmp_path)
    for name in ("bf16", "gptq"):
        left_out(config, name, humaneval="code", mgsm="math")
    gptq = compare(config)["variants"]["gptq"]
    assert set(gptq["not_measured"]) == {"humaneval", "mgsm"}
    assert gptq["notes"] == [
        "mgsm was not measured, other questions stand for math: no metric for mgsm"
    ]
    assert gptq["mismatches"] == gptq["categories_missing"] == []


def test_tasks_left_out_of_one_are_a_mismatch(tmp_path: Path) -> None:
    config = measured(tmp_path)
    for name in ("bf16", "rtn"):
        rows = samples(name, 40)
        task = rows["task"].where(rows["category"].ne("math"), "mgsm")
        write_samples(config.workspace, name, rows.assign(task=task))
    rows = samples("gptq", 40)
    write_samples(config.workspace, "gptq", rows[rows["category"] != "math"])
    left_out(config, "gptq", mgsm="math")
    left_out(config, "bf16", humaneval="code")
    variants = compare(config)["variants"]
    assert variants["gptq"]["mismatches"] == [
        "mgsm was measured for the baseline only: no metric for mgsm",
        "humaneval was not measured for the baseline: no metric for humaneval",
    ]
    assert variants["gptq"]["categories_missing"] == []
    assert len(variants["rtn"]["mismatches"]) == 1


@pytest.mark.parametrize(("probed", "told"), [(2e-4, True), (8e-3, False)])
def test_kl_that_does_not_exercise_the_cache_says_nothing_of_it(
    tmp_path: Path, probed: float, told: bool
) -> None:
    config = measured(tmp_path)
    twice(config, flipped=2, kl=0.015)
    cached_in_fp8(config, "w8a8", probed)
    notes = compare(config)["variants"]["w8a8"]["notes"]
    assert any("indistinguishable" in note for note in notes) == told


def test_a_left_out_task_excuses_no_category_that_was_asked_otherwise(tmp_path: Path) -> None:
    config = measured(tmp_path)
    rows = samples("gptq", 40)
    write_samples(config.workspace, "gptq", rows[rows["category"] != "math"])
    for name in ("bf16", "gptq"):
        left_out(config, name, mgsm="math")
    assert compare(config)["variants"]["gptq"]["categories_missing"] == ["math"]


def test_a_loss_to_one_side_is_no_noise(tmp_path: Path) -> None:
    config = measured(tmp_path)
    base = samples("bf16", 200)
    right = base.index[base["score"].eq(1) & base["category"].eq("math")]
    wrong = base.index[base["score"].eq(0) & base["category"].eq("math")]
    count = min(len(right), len(wrong)) // 2
    both = [*right[:count], *wrong[:count]]
    again = base.assign(score=base["score"].where(~base.index.isin(both), 1 - base["score"]))
    worse = base.assign(score=base["score"].where(~base.index.isin(right[: 2 * count]), 0.0))
    write_samples(config.workspace, "bf16", base)
    folder = config.workspace.evaluation("bf16") / "again"
    folder.mkdir()
    again.to_parquet(folder / "samples.parquet")
    for name, rows in (("gptq", worse), ("rtn", again)):
        write_samples(config.workspace, name, rows)
    variants = compare(config)["variants"]
    # As many answers changed sides, but all to the worse.
    assert variants["gptq"]["categories"]["math"]["ci_high"] < 0
    assert not variants["gptq"]["categories"]["math"]["inside_noise"]
    assert variants["rtn"]["categories"]["math"]["inside_noise"]
