"""Paired statistics and intervals; scipy and statsmodels do the mathematics."""

from qpipe.stats._clusters import cluster_mean_interval, mean_interval
from qpipe.stats._paired import Paired, holm, paired_difference, simultaneous
from qpipe.stats._power import questions_needed, smallest_margin

__all__ = [
    "Paired",
    "cluster_mean_interval",
    "holm",
    "mean_interval",
    "paired_difference",
    "questions_needed",
    "simultaneous",
    "smallest_margin",
]
