"""Evaluation of a served variant on business and public suites, with lm-eval as the engine."""

from qpipe.evaluation._own import OwnScorers, load_readers, load_scorers
from qpipe.evaluation._plan import SuitePlan, plan_suites
from qpipe.evaluation._prompts import Bos, render
from qpipe.evaluation._rows import (
    Message,
    Placed,
    Row,
    cluster_tag,
    load_business,
    read_business,
)
from qpipe.evaluation._run import import_lm_eval, run_suites
from qpipe.evaluation._scorers import (
    SCORERS,
    FieldCount,
    Scorer,
    field_counts,
    field_summary,
    score,
)
from qpipe.evaluation._text import normalise, words

__all__ = [
    "SCORERS",
    "Bos",
    "FieldCount",
    "Message",
    "OwnScorers",
    "Placed",
    "Row",
    "Scorer",
    "SuitePlan",
    "cluster_tag",
    "field_counts",
    "field_summary",
    "import_lm_eval",
    "load_business",
    "load_readers",
    "load_scorers",
    "normalise",
    "plan_suites",
    "read_business",
    "render",
    "run_suites",
    "score",
    "words",
]
