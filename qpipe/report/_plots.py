"""The page's plots, as HTML fragments with fixed ids."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

from qpipe.report._view import Row, View

__all__ = ["plots"]

_COLOURS = {"GO": "#15803d", "NO-GO": "#b91c1c", "INCONCLUSIVE": "#b45309"}
_BASE = "#475569"
_LINES = ("#475569", "#2563eb", "#0d9488", "#b45309", "#7c3aed", "#db2777", "#4d7c0f", "#0891b2")
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
_CONFIG = {"displayModeBar": False, "responsive": True}


def plots(view: View) -> dict[str, str]:
    """Fragments by name; one is absent where nothing was measured for it."""
    served = [row for row in view.rows if row.levels]
    weighed = [row for row in view.rows if row.memory.get("weights_gib") is not None]
    figures: dict[str, Any] = {}
    scored = [row for row in served if row.overall.get("score") is not None]
    if scored:
        figures["accuracy_speed"] = _accuracy_speed(view, scored)
    if served:
        figures["throughput"] = _throughput(served)
    if weighed:
        figures["memory"] = _memory(weighed)
    return {
        name: pio.to_html(
            figure,
            include_plotlyjs=False,
            full_html=False,
            div_id=f"plot-{name.replace('_', '-')}",
            config=_CONFIG,
        )
        for name, figure in figures.items()
    }


def _accuracy_speed(view: View, rows: list[Row]) -> Any:
    """Score over speed; the bars are the interval of the difference from the baseline."""
    base = view.baseline.overall["score"]
    figure = go.Figure()
    for row in rows:
        score, overall = row.overall.get("score"), row.overall
        bars = None
        if "ci_low" in overall:
            bars = {
                "type": "data",
                "symmetric": False,
                "array": [overall["ci_high"] - overall["delta"]],
                "arrayminus": [overall["delta"] - overall["ci_low"]],
                "thickness": 1,
                "width": 4,
            }
        figure.add_scatter(
            x=[row.top_level["output_tok_s"]],
            y=[score],
            error_y=bars,
            mode="markers+text",
            text=[f"  {_label(row)}"],
            textposition="middle right",
            marker={"size": 12, "color": _colour(row), "symbol": _symbol(row)},
            showlegend=False,
            hovertemplate="%{text}<br>%{x:.0f} tok/s<br>score %{y:.3f}<extra></extra>",
        )
    figure.add_hline(y=base, line={"dash": "dot", "color": "#94a3b8", "width": 1})
    speeds = [row.top_level["output_tok_s"] for row in rows]
    room = 0.08 * max(speeds)  # for the labels
    figure.update_xaxes(range=[min(speeds) - room / 2, max(speeds) + 2 * room])
    at = rows[0].top_level["concurrency"]
    return _styled(figure, f"output tokens a second at concurrency {at}", "mean score")


def _throughput(rows: list[Row]) -> Any:
    figure = go.Figure()
    for index, row in enumerate(rows):
        figure.add_scatter(
            x=[str(level["concurrency"]) for level in row.levels],
            y=[level["output_tok_s"] for level in row.levels],
            name=_label(row),
            mode="lines+markers",
            line={"color": _LINES[index % len(_LINES)], "dash": "dot" if row.is_baseline else None},
        )
    figure.update_xaxes(type="category")
    return _styled(figure, "concurrency", "output tokens a second")


def _memory(rows: list[Row]) -> Any:
    names = [_label(row) for row in rows][::-1]
    values = [row.memory["weights_gib"] for row in rows][::-1]
    figure = go.Figure()
    figure.add_bar(
        x=values,
        y=names,
        orientation="h",
        marker={
            "color": [_colour(row) for row in rows][::-1],
            "pattern": {"shape": ["" if row.mode == "native" else "/" for row in rows][::-1]},
        },
        text=[f"{value:.3g}" for value in values],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}: %{x:.3f} GiB<extra></extra>",
    )
    return _styled(figure, "weights, GiB", None)


def _label(row: Row) -> str:
    return row.name if row.mode == "native" else f"{row.name} ({row.mode})"


def _colour(row: Row) -> str:
    return _BASE if row.is_baseline else _COLOURS[row.verdict]


def _symbol(row: Row) -> str:
    if row.is_baseline:
        return "diamond"
    return "circle" if row.mode == "native" else "circle-open"


def _styled(figure: Any, x: str, y: str | None) -> Any:
    axis = {"gridcolor": "#eef1f5", "linecolor": "#cbd5e1", "zeroline": False, "automargin": True}
    figure.update_layout(
        template="none",
        height=340,
        margin={"l": 56, "r": 24, "t": 16, "b": 48},
        font={"family": _FONT, "size": 12, "color": "#1e293b"},
        paper_bgcolor="white",
        plot_bgcolor="white",
        xaxis_title=x,
        yaxis_title=y,
        legend={"orientation": "h", "y": -0.22},
    )
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    return figure
