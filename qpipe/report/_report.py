"""Renders the pages."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from qpipe.config import Config
from qpipe.records import staged_dir, write_text
from qpipe.report._format import FILTERS
from qpipe.report._plots import plots
from qpipe.report._view import gather

__all__ = ["report"]

_PAGES = {"index.html": "index.html.j2", "report.md": "report.md.j2"}


def report(config: Config) -> dict[str, Any]:
    """Write ``index.html``, which needs no network, and ``report.md``; returns their paths.

    Raises:
        MissingInput: ``compare`` or ``gate`` did not run.
    """
    view = gather(config)
    environment = Environment(
        loader=PackageLoader("qpipe.report"),
        autoescape=lambda name: bool(name and name.endswith(".html.j2")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    values = {
        "view": view,
        "plots": {name: Markup(html) for name, html in plots(view).items()},
        "plotlyjs": Markup(get_plotlyjs()),
    }
    folder = config.workspace.report
    with staged_dir(folder) as staged:
        for page, template in _PAGES.items():
            text = environment.get_template(template).render(values)
            write_text(staged / page, text.rstrip() + "\n")
    return {"pages": [str(folder / page) for page in _PAGES]}
