from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from qpipe.compare import compare
from qpipe.config import Config
from qpipe.errors import GateError, MissingInput
from qpipe.gate import RULES, enforce, gate
from qpipe.records import read_json, write_json
from tests.records_fixture import (
    cached_in_fp8,
    left_out,
    measured,
    samples,
    with_texts,
    write_samples,
)


def judged(root: Path, questions: int = 40, **policy: Any) -> tuple[Config, dict[str, Any]]:
    config = measured(root, questions, **policy)
    compare(config)
    return config, gate(config)["verdicts"]


def edit_fidelity(config: Config, name: str, **figures: Any) -> dict[str, Any]:
    path = config.workspace.fidelity(name)
    write_json(path, {**read_json(path, "-"), **figures})
    compare(config)
    verdict: dict[str, Any] = gate(config)["verdicts"][name]
    return verdict


def test_verdicts(tmp_path: Path) -> None:
    config, verdicts = judged(tmp_path)
    assert {name: entry["verdict"] for name, entry in verdicts.items()} == {
        "bf16": "GO",
        "w8a8": "GO",
        "gptq": "GO",
        "rtn": "NO-GO",
        "fp8": "INCONCLUSIVE",
        "nvfp4": "INCONCLUSIVE",
        "gptq-mixed": "GO",
    }
    assert verdicts["bf16"]["reasons"] == ["baseline"]
    assert verdicts["rtn"]["reasons"][0] == "mean KL 0.3100 [0.2790, 0.3410] is above 0.15"
    assert verdicts["nvfp4"]["reasons"] == [
        "not supported here: no NVFP4 kernel in the CPU build of vLLM"
    ]
    assert "simulated" in verdicts["fp8"]["reasons"][0]
    assert json.loads(config.workspace.gate.read_text())["policy"]["kl_mean_max"] == 0.15


def test_interval_that_holds_the_limit_is_undecided(tmp_path: Path) -> None:
    _, verdicts = judged(tmp_path, kl_mean_max=0.12)
    assert verdicts["gptq"]["verdict"] == "INCONCLUSIVE"
    assert "contains the limit 0.12" in verdicts["gptq"]["reasons"][0]
    assert verdicts["gptq"]["next"] == "measure more held-out texts"


def test_simulated_may_be_certified(tmp_path: Path) -> None:
    _, verdicts = judged(tmp_path, certify_simulated=True)
    assert verdicts["fp8"]["verdict"] == "GO"
    assert "simulated" in verdicts["fp8"]["notes"][0]


def test_simulated_may_fail(tmp_path: Path) -> None:
    _, verdicts = judged(tmp_path, kl_mean_max=0.01)
    assert verdicts["fp8"]["verdict"] == "NO-GO"


def test_small_draws_do_not_decide_accuracy(tmp_path: Path) -> None:
    _, verdicts = judged(tmp_path, accuracy_margin=0.02)
    entry = verdicts["w8a8"]
    assert entry["verdict"] == "INCONCLUSIVE"
    assert "does not decide the margin 0.02" in entry["reasons"][0]
    assert "questions in" in entry["next"]


def test_accuracy_as_notes(tmp_path: Path) -> None:
    _, verdicts = judged(tmp_path, accuracy_margin=0.02, accuracy_decides=False)
    entry = verdicts["w8a8"]
    assert entry["verdict"] == "GO"
    assert entry["reasons"][-1].startswith("accuracy margins are notes")
    assert any("margin 0.02" in note for note in entry["notes"])


def test_accuracy_certified_with_enough_questions(tmp_path: Path) -> None:
    _, verdicts = judged(tmp_path, questions=600, accuracy_margin=0.06)
    assert verdicts["w8a8"]["verdict"] == "GO"


def test_scores_alone_falling_rechecks_the_set(tmp_path: Path) -> None:
    _, verdicts = judged(
        tmp_path,
        questions=200,
        accuracy_margin=0.02,
        kl_mean_max=1.0,
        kl_category_max=1.0,
        top1_agreement_min=0.1,
    )
    assert verdicts["rtn"]["verdict"] == "NO-GO"
    assert verdicts["rtn"]["next"].startswith("recheck the evaluation set")


# KL is not judged, or an interval holds its limit: nothing says that the model is sound.
@pytest.mark.parametrize("limits", [(None, None), (1.0, 0.42), (0.32, None)])
def test_falling_scores_do_not_blame_the_set_without_kl(
    tmp_path: Path, limits: tuple[float | None, float | None]
) -> None:
    _, verdicts = judged(
        tmp_path,
        questions=200,
        accuracy_margin=0.02,
        kl_mean_max=limits[0],
        kl_category_max=limits[1],
        top1_agreement_min=0.1,
    )
    assert verdicts["rtn"]["verdict"] == "NO-GO"
    assert verdicts["rtn"]["next"].startswith("finer granularity")


@pytest.mark.parametrize(("kl", "verdict"), [(0.0177, "INCONCLUSIVE"), (2.0, "NO-GO")])
def test_mismatched_records_cannot_be_go(tmp_path: Path, kl: float, verdict: str) -> None:
    config, _ = judged(tmp_path)
    path = config.workspace.bench("w8a8")
    record = read_json(path, "-")
    record["provenance"]["engine_version"] = "0.33.0"
    write_json(path, record)
    figures = {"kl_mean": kl, "kl_ci_low": kl * 0.9, "kl_ci_high": kl * 1.1}
    entry = edit_fidelity(config, "w8a8", **figures)
    assert entry["verdict"] == verdict
    mismatch = "engine version 0.33.0 against the baseline's 0.32.0"
    assert mismatch in entry["reasons"]
    if verdict == "INCONCLUSIVE":
        assert entry["next"].startswith("measure 'w8a8' and the baseline on one engine")


def test_top1_is_judged_by_the_interval_over_texts(tmp_path: Path) -> None:
    config, _ = judged(tmp_path)
    figures = {"top1_agreement": 0.75, "top1_ci_low": 0.65, "top1_ci_high": 0.8}
    entry = edit_fidelity(config, "w8a8", **figures)
    assert entry["verdict"] == "INCONCLUSIVE"
    assert "top-1 agreement 0.750 [0.650, 0.800] contains the limit 0.7" in entry["reasons"][0]


@pytest.mark.parametrize(
    ("questions", "every", "verdict", "said"),
    [
        # No answer more is cut; 40 questions cannot exclude an excess of five points, 100 can.
        (40, None, "INCONCLUSIVE", "does not decide the limit 5.0%"),
        (100, None, "GO", "within the limit 5.0%"),
        (100, 16, "INCONCLUSIVE", "does not decide the limit 5.0%"),
        (100, 1, "NO-GO", "above the limit 5.0%"),
    ],
)
def test_truncation(
    tmp_path: Path, questions: int, every: int | None, verdict: str, said: str
) -> None:
    config, _ = judged(tmp_path, questions=questions, truncated_share_max=0.05)
    rows = samples("w8a8", questions)
    if every:
        cut = rows["finish_reason"].notna() & (rows["doc_id"].astype(int) % every == 0)
        rows.loc[cut, "finish_reason"] = "length"
    write_samples(config.workspace, "w8a8", rows)
    compare(config)
    entry = gate(config)["verdicts"]["w8a8"]
    assert entry["verdict"] == verdict
    told = [reason for reason in entry["reasons"] if "cut by length" in reason]
    assert len(told) == 3 and all(said in reason for reason in told)  # one a generated category


def test_missing_category_is_undecided(tmp_path: Path) -> None:
    config, _ = judged(tmp_path, questions=600, accuracy_margin=0.06)
    rows = samples("w8a8", 600)
    write_samples(config.workspace, "w8a8", rows[rows["category"] != "math"])
    compare(config)
    entry = gate(config)["verdicts"]["w8a8"]
    assert entry["verdict"] == "INCONCLUSIVE" and "math" in entry["reasons"][0]


def test_log_likelihoods_are_judged_in_their_unit(tmp_path: Path) -> None:
    config = measured(tmp_path, 600, accuracy_margin=0.06)
    with_texts(config, 600)
    compare(config)
    verdicts = gate(config)["verdicts"]
    told = {
        name: next(
            sentence for sentence in entry["reasons"] if sentence.startswith("language-modelling")
        )
        for name, entry in verdicts.items()
        if name in ("w8a8", "rtn")
    }
    assert re.fullmatch(
        r"language-modelling -0\.0[01]\d nats a word \[-0\.01\d, -0\.00\d\] over 40 texts"
        r" is within the margin 0\.06",
        told["w8a8"],
    )
    assert "over 40 texts is worse than the margin 0.06" in told["rtn"]
    tight = measured(tmp_path / "tight", 600, accuracy_margin=0.049)
    with_texts(tight, 600)
    compare(tight)
    entry = gate(tight)["verdicts"]["gptq"]
    assert any(
        reason.endswith("over 40 texts does not decide the margin 0.049")
        for reason in entry["reasons"]
    )
    assert "ask more texts in language-modelling" in entry["next"]


@pytest.mark.parametrize(
    ("policy", "decides"),
    [
        ({"accuracy_margin": 0.06}, True),
        ({"accuracy_margin": 0.06, "accuracy_decides": False}, False),
        ({}, False),
    ],
)
def test_a_category_asked_for_and_not_measured(
    tmp_path: Path, policy: dict[str, Any], decides: bool
) -> None:
    config = measured(tmp_path, 600, **policy)
    for name in ("bf16", "w8a8"):
        left_out(config, name, humaneval="code", mbpp="code", mgsm="math")
    compare(config)
    entry = gate(config)["verdicts"]["w8a8"]
    sentence = (
        "code was asked for and not measured"
        " (humaneval: no metric for humaneval; mbpp: no metric for mbpp)"
    )
    assert (sentence in entry["reasons"]) == decides
    assert (sentence in entry["notes"]) != decides
    assert entry["verdict"] == ("INCONCLUSIVE" if decides else "GO")
    if decides:
        assert entry["next"] == "bring what the tasks of code need, or take them out of the suites"
    assert any("mgsm was not measured, other questions" in note for note in entry["notes"])


@pytest.mark.parametrize(
    ("variant", "remedy"),
    [
        ("rtn", "finer granularity: weights in groups of 64"),
        ("gptq", "better calibration: more than 128 rows"),
        ("w8a8", "better calibration"),
        ("fp8", "mixed precision: add entries 'sensitivity.fp8'"),
    ],
)
def test_remedies(tmp_path: Path, variant: str, remedy: str) -> None:
    config, _ = judged(tmp_path)
    entry = edit_fidelity(config, variant, kl_mean=2.0, kl_ci_low=1.9, kl_ci_high=2.1)
    assert entry["verdict"] == "NO-GO"
    assert entry["next"].startswith(remedy)


def test_no_limit_is_no_go_ahead(tmp_path: Path) -> None:
    _, verdicts = judged(tmp_path, kl_mean_max=None, kl_category_max=None, top1_agreement_min=None)
    assert verdicts["gptq"]["verdict"] == "INCONCLUSIVE"


def test_enforce(tmp_path: Path) -> None:
    _, verdicts = judged(tmp_path)
    with pytest.raises(GateError, match="rtn is NO-GO: mean KL") as caught:
        enforce({"verdicts": verdicts})
    assert caught.value.exit_code == 7
    enforce({"verdicts": {"bf16": verdicts["bf16"], "w8a8": verdicts["w8a8"]}})


def test_needs_compare(tmp_path: Path) -> None:
    with pytest.raises(MissingInput, match="qpipe compare"):
        gate(measured(tmp_path))


def test_rule_names_are_unique() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_one_bad_category_of_many_must_be_beyond_chance(tmp_path: Path) -> None:
    """An interval above the limit that would not hold for all categories together."""
    config = measured(tmp_path, kl_mean_max=0.9, kl_category_max=0.25)
    path = config.workspace.fidelity("w8a8")
    record = read_json(path, "-")
    for low_all, verdict in ((0.24, "INCONCLUSIVE"), (0.26, "NO-GO")):
        record["categories"]["math"] |= {"kl_mean": 0.3, "kl_ci_low": 0.27, "kl_ci_high": 0.33}
        record["categories"]["math"]["kl_ci_low_all"] = low_all
        write_json(path, record)
        compare(config)
        entry = gate(config)["verdicts"]["w8a8"]
        assert entry["verdict"] == verdict
    assert "mean KL on math 0.3000" in entry["reasons"][0]


@pytest.mark.parametrize(
    ("decides", "lost", "verdict"), [(True, 12, "NO-GO"), (True, 4, "GO"), (False, 12, "GO")]
)
def test_failing_at_one_length_only(tmp_path: Path, decides: bool, lost: int, verdict: str) -> None:
    """A dozen of 400 questions is 3%: their category passes, but they are a third of one length."""
    config = measured(tmp_path, accuracy_margin=0.1, accuracy_decides=decides)
    for name in ("bf16", "w8a8"):
        rows = samples("bf16", 400).assign(score=1.0)
        order = rows.groupby("category").cumcount()
        tags = order.map(lambda index: "tokens:8k" if index < 40 else "tokens:1k")
        math = rows["category"] == "math"
        fails = math & (order < lost) & (name != "bf16")
        score = rows["score"].where(~fails, 0.0)
        write_samples(config.workspace, name, rows.assign(tags=tags.where(math), score=score))
    compare(config)
    entry = gate(config)["verdicts"]["w8a8"]
    told = [text for text in entry["reasons"] + entry["notes"] if "long context at" in text]
    assert entry["verdict"] == verdict
    assert len(told) == (lost == 12)
    assert all(
        "at 8k tokens -0.300" in text and "worse than the margin 0.1" in text for text in told
    )


NEVER_ASKED = "its KV cache is quantized and no long-context question was asked"
NEVER_ANSWERED = "only decode reads its quantized KV cache, and no long-context answer was written"
UNSEEN = "KL on prompts does not exercise its quantized KV cache, which only decode reads"


@pytest.mark.parametrize(
    ("asked", "kl", "decides", "reasons"),
    [
        (None, 2e-4, False, [NEVER_ASKED]),
        ("math", 2e-4, False, []),
        ("low-resource", 2e-4, False, []),  # judged by likelihood: prefill reads the cache too
        ("low-resource", 8e-3, True, [NEVER_ANSWERED]),
        ("math", 8e-3, False, [UNSEEN]),
        ("math", 8e-3, True, []),
    ],
)
def test_a_quantized_cache_is_judged_on_long_texts(
    tmp_path: Path, asked: str | None, kl: float, decides: bool, reasons: list[str]
) -> None:
    policy: dict[str, Any] = {"accuracy_margin": 0.5} if decides else {}
    config = measured(tmp_path, **policy)
    for name in ("bf16", "w8a8"):
        rows = samples("bf16", 40)
        tags = rows["tags"].mask(rows["category"].eq(asked or ""), "tokens:8k")
        write_samples(config.workspace, name, rows.assign(tags=tags))
    cached_in_fp8(config, "w8a8", kl)
    compare(config)
    verdicts = gate(config)["verdicts"]
    entry = verdicts["w8a8"]
    assert entry["verdict"] == ("INCONCLUSIVE" if reasons else "GO")
    said = [text for text in entry["reasons"] if text in (NEVER_ASKED, NEVER_ANSWERED, UNSEEN)]
    assert said == reasons
    assert ("Long context" in (entry["next"] or "")) == (
        reasons in ([NEVER_ASKED], [NEVER_ANSWERED])
    )
    # Where answers decide, it is still told that KL says nothing of the cache.
    assert (UNSEEN in entry["notes"]) == (kl == 8e-3 and decides)
    assert not set(verdicts["gptq"]["reasons"]) & {NEVER_ASKED, NEVER_ANSWERED, UNSEEN}
