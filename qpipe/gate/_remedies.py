"""What to try after a failure, the cheapest first. One entry in ``REMEDIES`` adds one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from qpipe.config import Release, Scheme
from qpipe.gate._rules import Outcome

__all__ = ["REMEDIES", "Remedy", "Situation", "next_remedy"]

_FINE_GROUP = 64
_MANY_ROWS = 512
_SCORES = {"accuracy", "length", "truncated"}
_KL = {"kl_mean", "kl_category"}


@dataclass(frozen=True)
class Situation:
    """A variant that failed."""

    variant: str
    release: Release
    scheme: Scheme
    rules: Mapping[Outcome, frozenset[str]]
    """Names of the rules by what they said of any figure."""

    @property
    def rows(self) -> int:
        """Calibration rows its scheme saw."""
        use = self.release.calibration
        return min(use.samples, self.scheme.calibration_samples or use.samples)

    @property
    def fallback(self) -> str | None:
        """The variant with its worst groups put back to 16 bits; itself if it is one."""
        if self.variant in self.release.fallback:
            return self.variant
        made = self.release.fallback.items()
        return next((name for name, entry in made if entry.source == self.variant), None)


@dataclass(frozen=True)
class Remedy:
    """One thing to try, and when it makes sense."""

    name: str
    applies: Callable[[Situation], bool]
    sentence: Callable[[Situation], str]


def next_remedy(situation: Situation) -> str:
    """The first remedy that applies."""
    remedy = next(each for each in REMEDIES if each.applies(situation))
    return remedy.sentence(situation)


def _only_scores_failed(situation: Situation) -> bool:
    rules = situation.rules
    kl_holds = bool(rules[Outcome.PASS] & _KL) and not rules[Outcome.UNDECIDED] & _KL
    return kl_holds and rules[Outcome.FAIL] <= _SCORES


def _coarse_weights(situation: Situation) -> bool:
    weights = situation.scheme.weights
    if weights is None or weights.type == "float":
        return False
    wide = weights.group_size is None or weights.group_size > _FINE_GROUP
    return weights.num_bits == 4 and (wide or weights.symmetric)


def _coarse_activations(situation: Situation) -> bool:
    activations = situation.scheme.activations
    return activations is not None and activations.strategy == "tensor"


def _finer(situation: Situation) -> str:
    weights = situation.scheme.weights
    if _coarse_activations(situation):
        return "finer granularity: one activation scale a token instead of one a tensor"
    if weights is not None and (weights.group_size is None or weights.group_size > _FINE_GROUP):
        return f"finer granularity: weights in groups of {_FINE_GROUP} input channels"
    return "finer granularity: zero points for the weights (symmetric: false)"


def _mixed(situation: Situation) -> str:
    name, source = situation.fallback, situation.variant
    if name == source:
        units = situation.release.fallback[source].restore_units
        return f"mixed precision: put more than {units} groups of '{source}' back to 16 bits"
    if name:
        return f"mixed precision: see '{name}', which has its most sensitive groups in 16 bits"
    return f"mixed precision: add entries 'sensitivity.{source}' and 'fallback' to the release"


REMEDIES: tuple[Remedy, ...] = (
    Remedy(
        "recheck",
        _only_scores_failed,
        lambda situation: "recheck the evaluation set: scores fell while the KL limits hold",
    ),
    Remedy("finer", lambda s: _coarse_weights(s) or _coarse_activations(s), _finer),
    Remedy(
        "calibration",
        lambda s: s.scheme.calibrated and s.rows < _MANY_ROWS,
        lambda s: f"better calibration: more than {s.rows} rows, of text like the traffic",
    ),
    Remedy("mixed", lambda s: s.scheme.weights is not None, _mixed),
    Remedy("method", lambda s: True, lambda s: "another method or more bits"),
)
"""Recheck the set, finer granularity, better calibration, mixed precision, another method."""
