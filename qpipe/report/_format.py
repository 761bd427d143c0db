"""How figures are written; what was not measured is a dash."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["FILTERS", "heat", "number", "ratio", "signed", "warm"]

DASH = "–"
_DEEPEST = 0.2  # a change of so much score has the full colour


def number(value: float | None, digits: int = 3) -> str:
    """A fixed number of decimals, thousands separated."""
    return DASH if value is None else f"{value:,.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 3) -> str:
    """The same with a sign."""
    return DASH if value is None else f"{value:+.{digits}f}".replace("-", "−")


def ratio(value: float | None) -> str:
    """``1.43×``, or nothing."""
    return "" if value is None else f"{value:.2f}×"


def count(value: int | None) -> str:
    """A number of tokens in few signs: ``950``, ``12.3k``, ``4.1M``."""
    if value is None or value < 1000:
        return DASH if value is None else str(value)
    return f"{value / 1e3:.1f}k" if value < 999_950 else f"{value / 1e6:.1f}M"


def percent(value: float | None, digits: int = 1) -> str:
    """A share."""
    return DASH if value is None else f"{100 * value:.{digits}f}%"


def as_perplexity(delta: float | None) -> str:
    """By what a difference of log-likelihoods, in nats, multiplies perplexity."""
    return "" if delta is None else f"{math.exp(-delta):.3f}×"


def short(digest: str | None) -> str:
    """The first characters of a hash."""
    return DASH if not digest else str(digest)[:10]


def heat(delta: float) -> str:
    """A cell's background: red for a loss, green for a gain."""
    depth = 0.04 + 0.30 * min(abs(delta) / _DEEPEST, 1.0)
    if delta == 0:
        return "transparent"
    return f"rgba({'200, 40, 40' if delta < 0 else '20, 140, 80'}, {depth:.3f})"


def warm(kl: float | None) -> str:
    """A cell's background on a logarithmic scale from 0.001 to 1 nat."""
    if not kl or kl <= 0:
        return "transparent"
    depth = 0.34 * min(max((math.log10(kl) + 3) / 3, 0.0), 1.0)
    return f"rgba(217, 119, 6, {depth:.3f})"


def machine(hardware: dict[str, Any] | None) -> str:
    """The GPUs, or the CPU where there is none."""
    if not hardware:
        return DASH
    if gpus := hardware["gpus"]:
        return ", ".join(f"{gpus.count(name)} × {name}" for name in dict.fromkeys(gpus))
    return f"{hardware['cpu']}, {hardware['cores']} cores"


def cell(text: Any) -> str:
    """Text for a Markdown table."""
    return str(text).replace("|", "\\|").replace("\n", " ")


FILTERS = {
    each.__name__: each
    for each in (
        number,
        signed,
        ratio,
        count,
        percent,
        as_perplexity,
        short,
        heat,
        warm,
        machine,
        cell,
    )
}
