"""Reads ``deltas.json``, applies the policy, writes ``gate.json``."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from qpipe.config import BASELINE, Config, Gate
from qpipe.errors import GateError
from qpipe.gate._remedies import Situation, next_remedy
from qpipe.gate._rules import RULES, Evidence, Finding, Outcome
from qpipe.records import read_json, write_json

__all__ = ["Verdict", "enforce", "gate"]


class Verdict(StrEnum):
    """Whether a variant may be released."""

    GO = "GO"
    NO_GO = "NO-GO"
    INCONCLUSIVE = "INCONCLUSIVE"


def gate(config: Config) -> dict[str, Any]:
    """Judge every variant by ``gate`` in the release file; writes and returns the verdicts.

    Raises:
        MissingInput: ``compare`` did not run.
    """
    deltas = read_json(config.workspace.deltas, "qpipe compare")
    policy = config.release.gate
    verdicts: dict[str, Any] = {
        BASELINE: {"verdict": Verdict.GO, "reasons": ["baseline"], "notes": [], "next": None}
    }
    for name in config.release.names:
        if name != BASELINE:
            verdicts[name] = _judge(config, name, deltas["variants"].get(name))
    record = {
        "release": config.release.name,
        "policy": policy.model_dump(),
        "verdicts": verdicts,
    }
    write_json(config.workspace.gate, record)
    return record


def enforce(record: dict[str, Any]) -> None:
    """Stop a rollout unless every variant is GO.

    Raises:
        GateError: naming each variant that is not, and why.
    """
    refused = {
        name: entry for name, entry in record["verdicts"].items() if entry["verdict"] != Verdict.GO
    }
    if refused:
        lines = [
            f"{name} is {entry['verdict']}: {entry['reasons'][0]}"
            for name, entry in refused.items()
        ]
        mends = [f"{name}: {entry['next']}" for name, entry in refused.items() if entry["next"]]
        raise GateError("\n".join(lines), "; ".join(mends) or None)


def _judge(config: Config, name: str, evidence: Evidence | None) -> dict[str, Any]:
    if evidence is None:
        return _entry(Verdict.INCONCLUSIVE, ["not compared"], [], "run `qpipe compare` again")
    if evidence.get("unsupported"):
        reason = f"not supported here: {evidence['unsupported']}"
        return _entry(Verdict.INCONCLUSIVE, [reason], [], "measure it on hardware that runs it")
    policy = config.release.gate
    deciding, notes = _findings(policy, evidence)
    by = {
        outcome: [finding for finding in deciding if finding.outcome == outcome]
        for outcome in Outcome
    }
    failed, open_ = by[Outcome.FAIL], by[Outcome.UNDECIDED]
    told = [finding.sentence for finding in notes] + list(evidence["notes"])
    if failed:
        scheme = config.scheme_of(name)
        assert scheme is not None, "only the baseline has no scheme"
        rules = {
            outcome: frozenset(finding.rule for finding in found) for outcome, found in by.items()
        }
        remedy = next_remedy(Situation(name, config.release, scheme, rules))
        return _entry(Verdict.NO_GO, _sentences([*failed, *open_]), told, remedy)
    if open_:
        needs = dict.fromkeys(finding.needs for finding in open_ if finding.needs)
        return _entry(Verdict.INCONCLUSIVE, _sentences(open_), told, "; ".join(needs) or None)
    if not by[Outcome.PASS]:
        needed = "set a limit under 'gate' in the release file"
        return _entry(Verdict.INCONCLUSIVE, ["the policy decides by no limit"], told, needed)
    reasons = _sentences(by[Outcome.PASS])
    if policy.accuracy_margin is not None and not policy.accuracy_decides:
        reasons.append("accuracy margins are notes and decide nothing (accuracy_decides)")
    return _entry(Verdict.GO, reasons, told, None)


def _findings(policy: Gate, evidence: Evidence) -> tuple[list[Finding], list[Finding]]:
    """Findings that decide, and those that are only told."""
    deciding: list[Finding] = []
    notes: list[Finding] = []
    for rule in RULES:
        limit = rule.limit(policy)
        if limit is not None:
            (deciding if rule.decides(policy) else notes).extend(rule.judge(evidence, limit))
    return deciding, notes


def _sentences(findings: list[Finding]) -> list[str]:
    return [finding.sentence for finding in findings]


def _entry(
    verdict: Verdict, reasons: list[str], notes: list[str], next_step: str | None
) -> dict[str, Any]:
    return {"verdict": verdict, "reasons": reasons, "notes": notes, "next": next_step}
