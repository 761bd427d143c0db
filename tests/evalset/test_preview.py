from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from qpipe.errors import ConfigError
from qpipe.evalset import preview_evalset
from tests.evalset.conftest import row

if TYPE_CHECKING:
    from tests.evalset.conftest import Write

ROWS = [
    row(1, "1 + 1 =", stop=["\n"], tags=["sum"]),
    row(2, "Is [bold]2[/bold] even?", scorer="choice", choices=["yes", "no"], reference="yes"),
    row(3, "3 - 1 =", level=4),
]


def shown(config: Any, rows: int = 2) -> str:
    out = io.StringIO()
    preview_evalset(config, "mine", rows, Console(file=out, width=90))
    return out.getvalue()


def test_rows_are_shown_as_they_are_asked(write: Write) -> None:
    text = shown(write(ROWS))
    assert text.startswith("without the chat template: out/model has none (yet)\nmath: 3 rows ─")
    assert "math-1 · numeric · level 1" in text and "│ 1 + 1 = " in text
    assert "reference  2" in text and "at most 32 tokens" in text
    assert "stop       '\\n'" in text and "tags       sum" in text
    assert "Is [bold]2[/bold] even?" in text  # no markup of ours
    assert "yes, no (the likeliest is the answer)" in text
    assert "math-3" not in text
    assert "math-3 · numeric · level 4" in shown(write(ROWS), rows=3)


def test_a_chat_goes_through_the_template(
    write: Write, workspace: Any, tokenizer_dir: Path
) -> None:
    shutil.copytree(tokenizer_dir, workspace.model)
    (workspace.model / "chat_template.jinja").write_text(
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    text = shown(write(ROWS))
    assert "<user>1 + 1 =<assistant>" in text
    assert "without the chat template" not in text
    plain = "{kind: business, files: {math: math.jsonl}, chat: false}"
    assert "│ 1 + 1 = " in shown(write(ROWS, {"evalsets/business/mine.yaml": plain}))


def test_faults_are_told(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"math\.jsonl:1: level"):
        shown(write([row(1, "x", level=9)]))
