"""Reads what ``measure`` wrote, writes ``deltas.json`` and ``deltas.csv``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from qpipe.compare._exercised import kv_part
from qpipe.compare._measured import CONFIDENCE, Measured, short_hash
from qpipe.compare._pairs import (
    Pairing,
    compared_by,
    cut_by_length,
    overall,
    pair,
    shares,
    unit_of,
)
from qpipe.compare._ratios import noise_part
from qpipe.compare._retrieval import by_length, long_context, retrieval_map, scores_by_length
from qpipe.config import BASELINE, Config
from qpipe.errors import InvalidMeasurement
from qpipe.hardware import identity
from qpipe.records import read_json, read_table, write_json, write_text

__all__ = ["compare"]

_ENGINE = ("engine", "engine_version")


def compare(config: Config) -> dict[str, Any]:
    """Compare every variant with the baseline; writes ``deltas.json`` and ``deltas.csv``.

    Raises:
        MissingInput: a variant was not measured.
        InvalidMeasurement: the baseline has no figures, no question can be paired, or records are
            of different checkpoints.
    """
    base = Measured(config, BASELINE)
    if base.unsupported:
        raise InvalidMeasurement(
            f"the baseline was not measured: {base.unsupported}",
            mend="serve the baseline with settings this machine supports",
        )
    baseline_rows = base.samples()
    noise = {"fidelity": noise_part(base.fidelity), "evaluation": _noise(base, baseline_rows)}
    record = {
        "release": config.release.name,
        "baseline": {
            **base.identity(),
            "not_measured": base.not_measured,
            **_baseline_part(baseline_rows),
            **base.absolute(base),
        },
        "confidence": CONFIDENCE,
        "noise": noise,
        "variants": {
            name: _variant_part(Measured(config, name), base, baseline_rows, noise)
            for name in config.release.names
            if name != BASELINE
        },
        "sensitivity": _rankings(config),
    }
    write_json(config.workspace.deltas, record)
    write_text(config.workspace.deltas.with_suffix(".csv"), _csv(record))
    return record


def _variant_part(
    own: Measured, base: Measured, baseline_rows: pd.DataFrame, noise: dict[str, Any]
) -> dict[str, Any]:
    if own.unsupported:
        return {**own.identity(), "unsupported": own.unsupported}
    against = own.fidelity.get("baseline_checkpoint_hash")
    if against != base.checkpoint:
        raise InvalidMeasurement(
            f"the KL of '{own.name}' is against a baseline of checkpoint {short_hash(against)};"
            f" the baseline's record is of {short_hash(base.checkpoint)}",
            mend=f"run `{own.command}`",
        )
    rows = own.samples()
    pairing = pair(baseline_rows, rows, own.name)
    kv = kv_part(own.fidelity, base.fidelity)
    not_measured = {**base.not_measured, **own.not_measured}
    missing = _without_a_pair(pairing, baseline_rows, own)
    by_category = _categories(pairing)
    whole = overall(pairing.rows, CONFIDENCE)
    # What prompts do not exercise cannot be called indistinguishable by them.
    seen = kv is None or kv["prefill_reads_cache"] is not False
    return {
        **own.identity(),
        "mismatches": [*_mismatches(own, base), *_left_out_of_one(own, base), *_missing(missing)],
        "notes": [
            *_notes(pairing),
            *_left_out_of_a_category(not_measured, by_category),
            *_empty(by_category),
            *(_inside_the_noise(own.fidelity, noise["fidelity"]) if seen else []),
            *([kv["said"]] if kv else []),
        ],
        "not_measured": not_measured,
        "paired": len(pairing.rows),
        "unpaired_baseline": pairing.unpaired_baseline,
        "unpaired_variant": pairing.unpaired_variant,
        "categories_missing": missing,
        **_against_noise({"overall": whole} if whole else {}, noise["evaluation"]),
        "categories": _against_noise(by_category, noise["evaluation"]),
        "retrieval": retrieval_map(pairing.rows),
        "lengths": by_length(pairing.rows, CONFIDENCE),
        "long_context": long_context(pairing.rows),
        "kv": kv,
        **own.absolute(base),
    }


def _mismatches(own: Measured, base: Measured) -> list[str]:
    """What differs besides the checkpoint, and so may be the cause of any difference."""
    found = []
    for part, on in own.measured_on.items():
        mine, theirs = _circumstances(on), _circumstances(base.measured_on[part])
        found += [
            f"{key} {mine.get(key)} against the baseline's {theirs.get(key)}"
            for key in mine | theirs
            if mine.get(key) != theirs.get(key)
        ]
    if own.fidelity.get("data_hash") != base.fidelity.get("data_hash"):
        found.append("the fidelity texts differ from the baseline's")
    if own.bench.get("data_hash") != base.bench.get("data_hash"):
        found.append("the load of the bench differs from the baseline's")
    if own.stability.get("data_hash") != base.stability.get("data_hash"):
        found.append("the sampled questions differ from the baseline's")
    found += [
        f"BOS begins {mine:.0%} of the prompts of {task} against the baseline's {theirs:.0%}"
        for task, mine, theirs in _bos_shares(own, base)
        if mine != theirs
    ]
    return list(dict.fromkeys(found))


def _bos_shares(own: Measured, base: Measured) -> Iterator[tuple[str, float, float]]:
    """Share of prompts that BOS began, by task; hashes of prompts do not see it."""
    for task, mine in own.results["tasks"].items():
        theirs = base.results["tasks"].get(task, {})
        shares = [(record.get("bos") or {}).get("share") for record in (mine, theirs)]
        if None not in shares:
            yield task, *shares


def _circumstances(provenance: dict[str, Any]) -> dict[str, Any]:
    """Engine and machine."""
    engine = {key: provenance.get(key) for key in _ENGINE}
    found = engine | identity(provenance.get("hardware") or {})
    return {key.replace("_", " "): value for key, value in found.items()}


def _without_a_pair(pairing: Pairing, baseline: pd.DataFrame, own: Measured) -> list[str]:
    """Categories of the baseline without a pair, but those whose every task was left out here."""
    asked = {str(name): set(tasks) for name, tasks in baseline.groupby("category")["task"]}
    return [each for each in pairing.missing if not asked[each] <= own.not_measured.keys()]


def _missing(categories: list[str]) -> list[str]:
    missing = ", ".join(categories)
    return [f"no question of {missing} was asked of both"] if missing else []


def _left_out_of_one(own: Measured, base: Measured) -> list[str]:
    """Tasks that could be measured for one and not for the other."""
    mine, theirs = own.not_measured, base.not_measured
    return [
        *(
            f"{task} was measured for the baseline only: {why['reason']}"
            for task, why in mine.items()
            if task not in theirs
        ),
        *(
            f"{task} was not measured for the baseline: {why['reason']}"
            for task, why in theirs.items()
            if task not in mine
        ),
    ]


def _left_out_of_a_category(
    not_measured: dict[str, dict[str, str]], compared: dict[str, dict[str, Any]]
) -> list[str]:
    """Tasks that were not measured, of categories that others of their tasks stand for."""
    return [
        f"{task} was not measured, other questions stand for {why['category']}: {why['reason']}"
        for task, why in not_measured.items()
        if why["category"] in compared
    ]


def _notes(pairing: Pairing) -> list[str]:
    if not pairing.unpaired_baseline + pairing.unpaired_variant:
        return []
    return [
        f"{pairing.unpaired_baseline} questions of the baseline and"
        f" {pairing.unpaired_variant} of the variant have no partner and are left out"
    ]


def _empty(by_category: dict[str, dict[str, Any]]) -> list[str]:
    """An empty answer scores like a wrong one and may have another cause."""
    more = [
        f"{category} {part['empty']} of {part['answers']} (baseline {part['empty_baseline']})"
        for category, part in by_category.items()
        if part["empty"] > part["empty_baseline"]
    ]
    return [f"more answers are empty than of the baseline: {', '.join(more)}"] if more else []


def _noise(base: Measured, rows: pd.DataFrame) -> dict[str, Any] | None:
    """What two runs of the baseline differ by, by category; ``None`` where there was one."""
    path = base.folder / "again" / "samples.parquet"
    if not path.exists():
        return None
    again = pair(rows, read_table(path, base.command), BASELINE)
    parts = _categories(again)
    if whole := overall(again.rows, CONFIDENCE):
        parts["overall"] = whole
    keys = ("n", "delta", "disagreement", "right_to_wrong", "wrong_to_right")
    return {name: {key: part[key] for key in keys} for name, part in parts.items()}


def _categories(pairing: Pairing) -> dict[str, dict[str, Any]]:
    return compared_by(pairing.rows, "category", CONFIDENCE)


def _against_noise(
    found: dict[str, dict[str, Any]], noise: dict[str, Any] | None
) -> dict[str, dict[str, Any]]:
    """Whether it is no more than two runs of the baseline differ by.

    That is, no more answers changed sides, and not mostly to one side.
    """
    for category, part in found.items():
        floor = (noise or {}).get(category)
        part["inside_noise"] = floor and (
            part["disagreement"] <= floor["disagreement"] and part["ci_low"] <= 0 <= part["ci_high"]
        )
    return found


def _inside_the_noise(kl: dict[str, Any], floor: dict[str, Any] | None) -> list[str]:
    if not floor or kl["kl_mean"] > floor["kl_ci_high"]:
        return []
    return [
        f"mean KL {kl['kl_mean']:.4f} is within the noise floor {floor['kl_mean']:.4f}"
        f" [{floor['kl_ci_low']:.4f}, {floor['kl_ci_high']:.4f}] of two runs of the baseline:"
        " indistinguishable from it"
    ]


def _rankings(config: Config) -> dict[str, Any]:
    """Units by source variant, for the report; a ranking that was not made is left out."""
    paths = {source: config.workspace.sensitivity(source) for source in config.release.sensitivity}
    return {
        source: read_json(path, f"qpipe sensitivity {source}")["units"]
        for source, path in paths.items()
        if path.exists()
    }


def _baseline_part(rows: pd.DataFrame) -> dict[str, Any]:
    cut = cut_by_length(rows)
    grouped = rows.assign(cut=cut).groupby("category", sort=True)
    scored = shares(rows)["score"]
    return {
        "retrieval": retrieval_map(rows),
        "lengths": scores_by_length(rows),
        "overall": {
            "n": len(scored),
            "unit": None,
            "score": float(scored.mean()) if len(scored) else None,
        },
        "categories": {
            str(category): {
                "n": len(group),
                "unit": unit_of(group),
                "score": float(group["score"].mean()),
                "truncated_share": _share(group["cut"]),
                "empty": int(group["empty"].sum()),
            }
            for category, group in grouped
        },
    }


def _share(cut: pd.Series[float]) -> float | None:
    return None if cut.isna().all() else float(cut.mean())


def _csv(record: dict[str, Any]) -> str:
    """One row a variant and category, then one a variant and length of long-context questions."""
    rows = [
        {
            "variant": name,
            "mode": entry["provenance"].get("mode"),
            key: group,
            **figures,
            "kl_mean": entry["fidelity"]["categories"].get(group, {}).get("kl_mean"),
        }
        for part, key in (("categories", "category"), ("lengths", "length"))
        for name, entry in record["variants"].items()
        for group, figures in entry.get(part, {}).items()
    ]
    return str(pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))
