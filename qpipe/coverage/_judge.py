"""What a check's figures mean: warnings, each with its mend, and notes.

Limits stand between what the checked-in mix showed and what an English-only and a code-only one did
for the categories that they lack, with SmolLM2-135M, rows of 256 tokens and the demo's suites. The
checked-in mix, 12 to 48 rows and four seeds: coverage ratio at least 0.75, JS at most 0.07 above,
channels beyond at most 0.9%, dissimilarity at most 1.17 times. English-only without code, Chinese,
Swahili and Bengali, each with at least one of: ratio down to 0.01, JS from 0.10 above, channels
beyond 1.9%. Code-only for all but code: JS from 0.09 above or dissimilarity from 1.4 times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["judge_groups", "judge_set", "notes"]

COVERAGE_RATIO_MIN = 0.7
"""Of a category's tokens the set has at least so many as a draw of the other categories has."""
JS_EXCESS_MAX = 0.085
"""Bits by which the set may be farther from a category than a draw of the other categories."""
EXCEEDING_MAX = 0.012
"""Share of input channels whose maximum on held-out text exceeds calibration's."""
DISSIMILARITY_RATIO_MAX = 1.3
"""Of 1 - similarity, against that to the other categories' held-out text."""
SCRIPT_MATTERS, SCRIPT_MIN = 0.10, 0.005
"""A script of so many of a category's letters has at least so many of calibration's."""
DUPLICATES_MAX = 0.10
"""Share of rows that repeat another one."""
FEWEST_TOKENS = 100
"""Fewer tokens of a category say little about it."""


def judge_groups(
    groups: Mapping[str, dict[str, Any]], report: dict[str, Any], scripts: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    """A warning for each group that calibration under-represents: reasons and mend."""
    for name, group in groups.items():
        if group["tokens"] < FEWEST_TOKENS:
            continue
        missing = [
            script
            for script, share in group["scripts"].items()
            if share >= SCRIPT_MATTERS and scripts.get(script, 0.0) < SCRIPT_MIN
        ]
        reasons = [*_tokens(group), *(_script(group, scripts, script) for script in missing)]
        reasons += _activations(group.get("activations"))
        if reasons:
            mend = _mend(group["category"], missing, report)
            yield {"group": name, "category": group["category"], "reasons": reasons, "mend": mend}


def judge_set(calibration: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Warnings of the set as a whole."""
    found = calibration["duplicates"]["rows"]
    if found["share"] > DUPLICATES_MAX:
        count = found["exact"] + found["near"]
        reason = f"{count} of {found['texts']} rows repeat another one"
        mend = "take repeated texts out of the sources"
        yield {"group": None, "category": None, "reasons": [reason], "mend": mend}


def notes(
    groups: Mapping[str, dict[str, Any]], report: dict[str, Any], activations: dict[str, Any]
) -> Iterator[str]:
    """What is worth knowing and no fault."""
    for name, group in groups.items():
        if group["lengths"]["beyond"]:
            yield (
                f"{group['lengths']['beyond']:.0%} of {name} are longer than rows of"
                f" {report['tokens']} tokens (up to {group['lengths']['longest']}): positions that"
                " calibration never reaches; raise calibration.tokens if they matter"
            )
        if group["tokens"] < FEWEST_TOKENS:
            yield f"{name} has {group['tokens']} tokens, too few to judge calibration by"
        if group["coverage_reference"] is None:
            yield f"{name} has no other category beside it to compare with"
    if "left_out" in activations:
        yield f"activations were not compared: {activations['left_out']}"


def _tokens(group: dict[str, Any]) -> Iterator[str]:
    reference = group["coverage_reference"]
    if reference is None:
        return
    if group["drawn_coverage"] < COVERAGE_RATIO_MIN * reference:
        yield (
            f"{group['drawn_coverage']:.0%} of its tokens are in calibration, {reference:.0%} in as"
            " much text of the other categories"
        )
    if group["drawn_js"] > group["js_reference"] + JS_EXCESS_MAX:
        yield (
            f"its tokens are {group['drawn_js']:.2f} bits from calibration's, and"
            f" {group['js_reference']:.2f} from those of the other categories"
        )


def _script(group: dict[str, Any], scripts: Mapping[str, float], script: str) -> str:
    share, here = group["scripts"][script], scripts.get(script, 0.0)
    return f"{share:.0%} of its letters are {script.title()}, {here:.1%} of calibration's"


def _activations(found: dict[str, Any] | None) -> Iterator[str]:
    if not found:
        return
    if found["exceeding"] > EXCEEDING_MAX:
        yield (
            f"{found['exceeding']:.1%} of input channels go beyond what calibration showed them"
            f" ({found['worst_exceeding']:.0%} in {found['worst_module']})"
        )
    reference = found["similarity_reference"]
    far = None if reference is None else DISSIMILARITY_RATIO_MAX * (1 - reference)
    if far is not None and 1 - found["similarity"] > far:
        yield (
            f"second moments of input channels are {found['similarity']:.3f} alike, {reference:.3f}"
            f" with the other categories (least {found['least_similarity']:.3f}, in"
            f" {found['least_similar_module']})"
        )


def _mend(category: str, missing: list[str], report: dict[str, Any]) -> str:
    script = f" in {' and '.join(each.title() for each in missing)} script" if missing else ""
    own = [name for name, source in report["sources"].items() if source["category"] == category]
    if own:
        names = ", ".join(f"'{name}'" for name in own)
        return f"raise the weight of {names} in {report['mix']}, or give it more text{script}"
    return (
        f"add a source of category '{category}'{script} to {report['mix']}: other text of that"
        " kind, not the evaluation's"
    )
