"""Evaluation of a served variant on business and public suites, with lm-eval as the engine."""

from qpipe.evaluation._rows import Message, Row, load_business
from qpipe.evaluation._run import run_suites
from qpipe.evaluation._scorers import SCORERS, normalise, score

__all__ = ["SCORERS", "Message", "Row", "load_business", "normalise", "run_suites", "score"]
