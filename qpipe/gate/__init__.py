"""One verdict a variant: GO, NO-GO or INCONCLUSIVE, with figures and what to do next."""

from qpipe.gate._gate import Verdict, enforce, gate
from qpipe.gate._remedies import REMEDIES, Remedy
from qpipe.gate._rules import RULES, Finding, Outcome, Rule

__all__ = [
    "REMEDIES",
    "RULES",
    "Finding",
    "Outcome",
    "Remedy",
    "Rule",
    "Verdict",
    "enforce",
    "gate",
]
