"""``qpipe calibrate --check``: writes ``out/calib_check.json``.

It is a stage of its own beside quantization: a changed question changes this record, and must not
change the calibration set or build a checkpoint again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from qpipe.calibration import Document, Tokenizer, read_mix
from qpipe.config import Config, PublicSuite
from qpipe.coverage._activations import compare_activations
from qpipe.coverage._distance import nearness
from qpipe.coverage._duplicates import duplicates
from qpipe.coverage._groups import Group, load_groups
from qpipe.coverage._judge import judge_groups, judge_set, notes
from qpipe.coverage._lengths import lengths
from qpipe.coverage._scripts import script_shares
from qpipe.errors import ConfigError
from qpipe.evalset import calibration_leaks, leak_fault
from qpipe.records import read_json, write_json

__all__ = ["check_calibration"]

NEAR_WORDS, NEAR_SIGNS = 8, 14
"""Shared runs from here up to a leak's length are listed (PaLM counts 8-grams)."""
LISTED = 20


def check_calibration(config: Config, progress: Callable[[str], None]) -> dict[str, Any]:
    """Compare the calibration set that is built with the evaluation; returns the record.

    Raises:
        ConfigError: calibration text stands in the evaluation or the held-out texts too, or any of
            these has faults.
        MissingInput: there is no calibration set or no model.
        WorkerError: the worker that watches activations died.
    """
    progress("looking for evaluation text in the mix")
    shared = _overlap(config)
    workspace, use = config.workspace, config.release.calibration
    folder = workspace.calibration(Path(use.mix).stem)
    report = read_json(folder / "report.json", "qpipe calibrate")
    lines = (folder / "calib.jsonl").read_text(encoding="utf-8").splitlines()
    rows: list[list[int]] = [json.loads(line)["input_ids"] for line in lines]
    tokenizer = Tokenizer(workspace.model, config.release.model.trust_remote_code)
    encoded = _encoded_mix(config, tokenizer)
    groups = load_groups(config)
    tokens = {group.name: _encode(tokenizer, group.texts) for group in groups}

    progress("comparing tokens and scripts")
    found = {group.name: _group_figures(group, groups, tokens, tokenizer, rows) for group in groups}
    calibration: dict[str, Any] = {
        "scripts": script_shares(tokenizer.decode(row) for row in rows),
        "lengths": {
            name: lengths([len(text) for text in texts], use.tokens)
            for name, texts in encoded.items()
        },
        "duplicates": {
            "rows": duplicates(rows),
            "documents": duplicates([text for texts in encoded.values() for text in texts]),
        },
    }
    held_out = {group.name: tokens[group.name] for group in groups if group.held_out}
    kin = {group.name: group.category for group in groups}
    activations = compare_activations(config, tokenizer, rows, held_out, kin, progress)
    for name, part in activations.pop("groups", {}).items():
        found[name]["activations"] = part

    warnings = [*judge_groups(found, report, calibration["scripts"]), *judge_set(calibration)]
    record = {
        "verdict": "warn" if warnings else "pass",
        "calibration_hash": report["hash"],
        **{key: report[key] for key in ("mix", "samples", "tokens")},
        "warnings": warnings,
        "notes": [*_not_compared(config), *notes(found, report, activations)],
        "overlap": shared,
        "calibration": calibration,
        "groups": found,
        "activations": activations,
    }
    write_json(workspace.calibration_check, record)
    return record


def _not_compared(config: Config) -> Iterator[str]:
    for name, suite in config.suites.items():
        if isinstance(suite, PublicSuite):
            yield f"the public suite '{name}' is not compared: keep its texts out of the mix"


def _overlap(config: Config) -> dict[str, Any]:
    leaks, texts = calibration_leaks(config)
    if leaks:
        raise ConfigError(map(leak_fault, leaks))
    near, _ = calibration_leaks(config, NEAR_WORDS, NEAR_SIGNS)
    listed = [
        {
            "text": f"{leak.target.where}, {leak.target.key}",
            "source": leak.source.where,
            "shared": leak.shared,
        }
        for leak in near[:LISTED]
    ]
    return {"texts": texts, "leaks": 0, "near": len(near), "listed": listed}


def _encoded_mix(config: Config, tokenizer: Tokenizer) -> dict[str, list[list[int]]]:
    root = config.workspace.root
    _, documents = read_mix(root / config.release.calibration.mix, root)
    return {
        name: [tokenizer.encode(text, []) for text in texts] for name, texts in documents.items()
    }


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [tokenizer.encode(Document("", text), []) for text in texts]


def _group_figures(
    group: Group,
    groups: Sequence[Group],
    tokens: dict[str, list[list[int]]],
    tokenizer: Tokenizer,
    rows: list[list[int]],
) -> dict[str, Any]:
    others = [tokens[other.name] for other in groups if other.category != group.category]
    prompts = [len(ids) for ids in _encode(tokenizer, group.prompts)]
    return {
        "category": group.category,
        "texts": len(group.prompts),
        "tokens": sum(map(len, tokens[group.name])),
        **nearness(tokens[group.name], rows, others).record(),
        "scripts": script_shares(group.texts),
        "lengths": lengths(prompts, len(rows[0])),
    }
