"""How near a served variant's next-token distribution is to the baseline's."""

from qpipe.fidelity._kl import coarse_kl
from qpipe.fidelity._stage import measure_fidelity

__all__ = ["coarse_kl", "measure_fidelity"]
