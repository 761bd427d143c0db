"""Speed and memory of a served variant."""

from qpipe.bench._stage import measure_bench

__all__ = ["measure_bench"]
