"""Which kernels the engine says it runs, and whether they compute what was declared."""

from __future__ import annotations

import re
from pathlib import Path

from qpipe.errors import EngineError
from qpipe.schemes import WIDE
from qpipe.serving._plan import Plan

__all__ = ["kernels_of", "require_kernels"]

# Names of vLLM 0.32. An emulation or a plain torch product is right and far from the speed of the
# format; torch's own FP8 products are such on CPU only.
REFERENCE = re.compile(r"^(Emulation|BlockWiseTorch|TorchNvFp4)")
REFERENCE_ON_CPU = re.compile(r"Torch|^Emulation")
# These leave activations at 16 bits; Marlin's take 8-bit ones beside 4-bit weights.
WEIGHT_ONLY = re.compile(
    r"WNA16|W4A16|wNa16|^Exllama|^Conch|^Marlin(Mx|Nv)Fp4|^MarlinFP8|^MarlinMxfp8"
)


def kernels_of(log: Path) -> tuple[str, ...]:
    """Names of the kernels that the engine's log says it took, not of those it tried."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return tuple(sorted(set(re.findall(r"\b(?:Using|Selected) (\w+Kernel)\b", text))))


def require_kernels(plan: Plan, kernels: tuple[str, ...], device: str, log: Path) -> None:
    """Check that a native plan runs on a kernel of its scheme.

    Raises:
        EngineError: none of the scheme's kernels runs, a reference one does, or one that leaves
            activations at 16 bits though the scheme rounds them.
    """
    if plan.mode.mode != "native":
        return
    runs = plan.mode.arithmetic
    ran = ", ".join(kernels) or "none it names"
    reference = REFERENCE_ON_CPU if device == "cpu" else REFERENCE
    wrong: str | None = None
    if plan.kernels and not set(plan.kernels) & set(kernels):
        wrong = f"must run on {' or '.join(plan.kernels)}; the engine took {ran}"
    elif not kernels and not {runs.weights, runs.activations} <= set(WIDE.values()):
        wrong = "names no kernel in its log, so nothing shows that it runs as declared"
    elif slow := [name for name in kernels if reference.search(name)]:
        wrong = f"runs on a reference kernel ({', '.join(slow)}), which is no native speed"
    elif runs.activations not in WIDE.values() and not plan.kernels:
        wide = [name for name in kernels if WEIGHT_ONLY.search(name)]
        if wide:
            wrong = f"leaves activations at 16 bits ({', '.join(wide)}); the scheme rounds them"
    if wrong is not None:
        raise EngineError(
            f"'{plan.variant}' {wrong}",
            mend=f"see {log}; correct `native` or `kernels` in the scheme file",
        )
