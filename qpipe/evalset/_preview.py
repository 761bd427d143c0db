"""``qpipe evalset preview``: rows as the model will see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from qpipe.config import BusinessSuite, Config
from qpipe.evalset._check import all_suites
from qpipe.evalset._length import own_tokenizer, prompt_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from qpipe.evaluation import Row

__all__ = ["preview_evalset"]


def preview_evalset(config: Config, name: str, rows: int, console: Console) -> None:
    """Print the first ``rows`` of every category of the suite ``name``.

    Raises:
        ConfigError: there is no such suite, or its rows have faults.
    """
    from qpipe.evaluation import load_business
    from qpipe.model import has_chat_template

    path, suite = all_suites(config, name)[name]
    groups = load_business(path, suite, config.workspace.root)
    tokenizer = None
    if suite.chat:
        if has_chat_template(config.workspace.model):
            tokenizer = own_tokenizer(config)
        if tokenizer is None:
            console.print("without the chat template: out/model has none (yet)")
    for category, group in groups.items():
        console.rule(f"{category}: {len(group)} rows", align="left")
        for row in group[:rows]:
            for panel in _panels(row, suite, tokenizer):
                console.print(panel)


def _panels(row: Row, suite: BusinessSuite, tokenizer: Any) -> Iterator[RenderableType]:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    title = f"{row.id} · {row.scorer} · level {row.level}"
    yield Panel(Text(prompt_of(row, tokenizer)), title=Text(title), title_align="left")
    facts = Table.grid(padding=(0, 2))
    for key, value in _facts(row, suite).items():
        facts.add_row(Text(f"  {key}", style="bold"), Text(value))
    yield facts


def _facts(row: Row, suite: BusinessSuite) -> dict[str, str]:
    reference = row.reference
    shown = reference if isinstance(reference, str) else json.dumps(reference, ensure_ascii=False)
    facts = {"reference": shown}
    if row.choices is None:
        facts["answer"] = f"at most {row.max_tokens or suite.max_tokens} tokens"
    else:
        facts["choices"] = ", ".join(row.choices) + " (the likeliest is the answer)"
    if row.stop:
        facts["stop"] = ", ".join(map(repr, row.stop))
    if row.tags:
        facts["tags"] = ", ".join(row.tags)
    return facts
