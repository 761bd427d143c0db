"""The rules of the gate. One entry in ``RULES`` adds one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from qpipe.config import Gate
from qpipe.stats import questions_needed, smallest_margin

__all__ = ["RULES", "Finding", "Outcome", "Rule"]

Evidence = dict[str, Any]
"""One variant's entry in ``deltas.json``."""

_MANY = 100_000


class Outcome(StrEnum):
    """What a rule says of one figure."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Finding:
    """One judged figure."""

    rule: str
    outcome: Outcome
    sentence: str
    needs: str | None = None
    """What would decide it."""


@dataclass(frozen=True)
class Rule:
    """One limit of the policy and how a variant's figures are held against it."""

    name: str
    limit: Callable[[Gate], float | None]
    """``None``: the policy does not judge this."""
    judge: Callable[[Evidence, float], Iterator[Finding]]
    decides: Callable[[Gate], bool] = lambda policy: True
    """False: the findings are notes."""


def _comparable(evidence: Evidence, limit: float) -> Iterator[Finding]:
    for mismatch in evidence["mismatches"]:
        needs = f"measure '{evidence['variant']}' and the baseline on one engine, machine and data"
        yield Finding("comparable", Outcome.UNDECIDED, mismatch, needs)


def _kl_mean(evidence: Evidence, limit: float) -> Iterator[Finding]:
    yield _kl("kl_mean", "mean KL", evidence["fidelity"], limit)


def _kl_category(evidence: Evidence, limit: float) -> Iterator[Finding]:
    """Passing needs all categories, so no correction is due; failing is held for all together."""
    categories = evidence["fidelity"]["categories"]
    for category, figures in categories.items():
        what = f"mean KL on {category}"
        finding = _kl("kl_category", what, figures, limit)
        if finding.outcome == Outcome.FAIL and figures["kl_ci_low_all"] <= limit:
            sentence = f"{finding.sentence}, but not for all {len(categories)} categories together"
            needs = "measure more held-out texts"
            finding = Finding("kl_category", Outcome.UNDECIDED, sentence, needs)
        yield finding


def _kl(rule: str, what: str, figures: dict[str, Any], limit: float) -> Finding:
    low, high = figures["kl_ci_low"], figures["kl_ci_high"]
    interval = f"{what} {figures['kl_mean']:.4f} [{low:.4f}, {high:.4f}]"
    if high < limit:
        return Finding(rule, Outcome.PASS, f"{interval} is below {limit:g}")
    if low > limit:
        return Finding(rule, Outcome.FAIL, f"{interval} is above {limit:g}")
    sentence = f"the interval of {interval} contains the limit {limit:g}"
    return Finding(rule, Outcome.UNDECIDED, sentence, "measure more held-out texts")


def _top1(evidence: Evidence, limit: float) -> Iterator[Finding]:
    fidelity = evidence["fidelity"]
    low, high = fidelity["top1_ci_low"], fidelity["top1_ci_high"]
    interval = f"top-1 agreement {fidelity['top1_agreement']:.3f} [{low:.3f}, {high:.3f}]"
    if low >= limit:
        yield Finding("top1", Outcome.PASS, f"{interval} is above {limit:g}")
    elif high < limit:
        yield Finding("top1", Outcome.FAIL, f"{interval} is below {limit:g}")
    else:
        sentence = f"the interval of {interval} contains the limit {limit:g}"
        yield Finding("top1", Outcome.UNDECIDED, sentence, "measure more held-out texts")


def _accuracy(evidence: Evidence, limit: float) -> Iterator[Finding]:
    """Non-inferiority in every category.

    Passing needs all, so no correction is due; failing is held for all categories together.
    """
    for category, figures in evidence["categories"].items():
        delta, low, high, n = (figures[key] for key in ("delta", "ci_low", "ci_high", "n"))
        unit = figures["unit"]
        what = f"{category} {delta:+.3f}{f' {unit}' if unit else ''}"
        interval = f"{what} [{low:+.3f}, {high:+.3f}] over {n} {'texts' if unit else 'questions'}"
        if low > -limit:
            sentence = f"{interval} is within the margin {limit:g}"
            yield Finding("accuracy", Outcome.PASS, sentence)
        elif figures["ci_high_all"] < -limit:
            sentence = f"{interval} is worse than the margin {limit:g}"
            yield Finding("accuracy", Outcome.FAIL, sentence)
        else:
            sentence = f"{interval} does not decide the margin {limit:g}"
            needs = f"ask more texts in {category}"
            if not unit:  # how many is known of right and wrong answers
                disagreement, effect = figures["disagreement"], figures["design_effect"]
                reach = smallest_margin(disagreement, n / effect)
                sentence += f" (so many questions certify {reach:.3f} at best)"
                needed = effect * questions_needed(disagreement, limit, delta)
                needs = f"ask {_count(needed)} questions in {category}"
            yield Finding("accuracy", Outcome.UNDECIDED, sentence, needs)
    for category in evidence["categories_missing"]:
        sentence = f"{category} has no question that both answered"
        yield Finding("accuracy", Outcome.UNDECIDED, sentence, "measure the variant again")


def _length(evidence: Evidence, limit: float) -> Iterator[Finding]:
    """A length of text at which a variant fails shows, however well it does at the others.

    Losses are held for all lengths together; passing is judged by category, over all lengths.
    """
    for length, figures in evidence["lengths"].items():
        if figures["ci_high_all"] < -limit:
            sentence = (
                f"long context at {length} tokens {figures['delta']:+.3f}"
                f" [{figures['ci_low']:+.3f}, {figures['ci_high']:+.3f}] over {figures['n']}"
                f" questions is worse than the margin {limit:g}"
            )
            yield Finding("length", Outcome.FAIL, sentence)


def _measured(evidence: Evidence, limit: float) -> Iterator[Finding]:
    """Categories that were asked for, and of which no task could be measured here."""
    reasons: dict[str, list[str]] = {}
    for task, why in evidence["not_measured"].items():
        if why["category"] not in evidence["categories"]:
            reasons.setdefault(why["category"], []).append(f"{task}: {why['reason']}")
    for category, tasks in reasons.items():
        sentence = f"{category} was asked for and not measured ({'; '.join(tasks)})"
        needs = f"bring what the tasks of {category} need, or take them out of the suites"
        yield Finding("measured", Outcome.UNDECIDED, sentence, needs)


def _truncated(evidence: Evidence, limit: float) -> Iterator[Finding]:
    """Categories that likelihood judges have no answers to cut.

    Failing is held for all categories together.
    """
    for category, figures in evidence["categories"].items():
        if not figures["answers"]:
            continue
        low, high = figures["truncated_excess_ci_low"], figures["truncated_excess_ci_high"]
        interval = (
            f"{figures['truncated_share']:.1%} of answers in {category} are cut by length,"
            f" {figures['truncated_excess']:+.1%} [{low:+.1%}, {high:+.1%}] to the baseline's share"
        )
        if high <= limit:
            sentence = f"{interval}, within the limit {limit:.1%}"
            yield Finding("truncated", Outcome.PASS, sentence)
        elif figures["truncated_excess_ci_low_all"] > limit:
            yield Finding("truncated", Outcome.FAIL, f"{interval}, above the limit {limit:.1%}")
        else:
            sentence = f"{interval}, which does not decide the limit {limit:.1%}"
            needs = f"ask more questions in {category}, or allow longer answers"
            yield Finding("truncated", Outcome.UNDECIDED, sentence, needs)


def _simulated(evidence: Evidence, limit: float) -> Iterator[Finding]:
    provenance = evidence["provenance"]
    if provenance.get("mode") == "simulated":
        reason = provenance.get("mode_reason")
        sentence = "its arithmetic is simulated here" + (f": {reason}" if reason else "")
        needs = "measure it on hardware with the kernel"
        yield Finding("simulated", Outcome.UNDECIDED, sentence, needs)


def _kv_asked(evidence: Evidence, limit: float) -> Iterator[Finding]:
    """Short texts read few keys and values, so they say little of a quantized cache."""
    kv, asked = evidence["kv"], evidence["long_context"]
    if kv is None:
        return
    needs = "ask long-context questions: see 'Long context' in the README"
    if not asked["questions"]:
        sentence = "its KV cache is quantized and no long-context question was asked"
        yield Finding("kv", Outcome.UNDECIDED, sentence, needs)
    elif kv["prefill_reads_cache"] is False and not asked["answers"]:
        sentence = (
            "only decode reads its quantized KV cache, and no long-context answer was written"
        )
        yield Finding("kv", Outcome.UNDECIDED, sentence, needs)


def _kv_unseen(evidence: Evidence, limit: float) -> Iterator[Finding]:
    """A limit on KL certifies nothing that the prompts it is taken on do not exercise."""
    if evidence["kv"] is not None and evidence["kv"]["prefill_reads_cache"] is False:
        sentence = "KL on prompts does not exercise its quantized KV cache, which only decode reads"
        needs = "let answers decide: set `gate.accuracy_margin` and `accuracy_decides: true`"
        yield Finding("kv_unseen", Outcome.UNDECIDED, sentence, needs)


def _answers_decide(policy: Gate) -> bool:
    return policy.accuracy_decides and policy.accuracy_margin is not None


def _count(number: float) -> str:
    if not math.isfinite(number) or number > _MANY:
        return f"more than {_MANY:,}"
    return f"about {math.ceil(number):,}"


RULES: tuple[Rule, ...] = (
    Rule("comparable", lambda policy: 0.0, _comparable),
    Rule("simulated", lambda policy: 0.0, _simulated, lambda policy: not policy.certify_simulated),
    Rule("kv", lambda policy: 0.0, _kv_asked),
    Rule("kv_unseen", lambda policy: 0.0, _kv_unseen, lambda policy: not _answers_decide(policy)),
    Rule("kl_mean", lambda policy: policy.kl_mean_max, _kl_mean),
    Rule("kl_category", lambda policy: policy.kl_category_max, _kl_category),
    Rule("top1", lambda policy: policy.top1_agreement_min, _top1),
    Rule(
        "measured",
        lambda policy: 0.0,
        _measured,
        lambda policy: policy.accuracy_margin is not None and policy.accuracy_decides,
    ),
    Rule(
        "accuracy",
        lambda policy: policy.accuracy_margin,
        _accuracy,
        lambda policy: policy.accuracy_decides,
    ),
    Rule(
        "length",
        lambda policy: policy.accuracy_margin,
        _length,
        lambda policy: policy.accuracy_decides,
    ),
    Rule("truncated", lambda policy: policy.truncated_share_max, _truncated),
)
"""In the order in which their sentences are shown."""
