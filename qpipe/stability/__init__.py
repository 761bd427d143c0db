"""How steady a served variant answers when it is sampled: spread of scores, degenerate output."""

from qpipe.stability._degenerate import KINDS, degenerate_kinds
from qpipe.stability._questions import Question, sampled_questions
from qpipe.stability._stage import measure_stability

__all__ = ["KINDS", "Question", "degenerate_kinds", "measure_stability", "sampled_questions"]
