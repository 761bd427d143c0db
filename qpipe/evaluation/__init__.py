"""Evaluation of a served variant on business and public suites, with lm-eval as the engine."""

from qpipe.evaluation._plan import plan_suites
from qpipe.evaluation._rows import Message, Row, load_business, normalise
from qpipe.evaluation._run import import_lm_eval, run_suites
from qpipe.evaluation._scorers import SCORERS, score

__all__ = [
    "SCORERS",
    "Message",
    "Row",
    "import_lm_eval",
    "load_business",
    "normalise",
    "plan_suites",
    "run_suites",
    "score",
]
