"""How near a served variant's next-token distribution is to the baseline's."""

from qpipe.fidelity._kl import coarse_kl
from qpipe.fidelity._stage import measure_fidelity, served_logprobs
from qpipe.fidelity._summary import compare_texts
from qpipe.fidelity._texts import held_out_texts, load_paragraphs

__all__ = [
    "coarse_kl",
    "compare_texts",
    "held_out_texts",
    "load_paragraphs",
    "measure_fidelity",
    "served_logprobs",
]
