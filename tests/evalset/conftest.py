"""A workspace with a mix, held-out texts and a suite, all sound."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qpipe.config import Config, load_config
from qpipe.paths import Workspace
from tests.evaluation.conftest import tokenizer_dir
from tests.workspace_fixture import release_body, write_workspace

__all__ = ["tokenizer_dir"]

Write = Callable[..., Config]


def row(number: int, prompt: str, **more: Any) -> dict[str, Any]:
    base = {"id": f"math-{number}", "category": "math", "prompt": prompt, "level": 1}
    return {**base, "reference": 2, "scorer": "numeric", **more}


@pytest.fixture
def write(workspace: Workspace) -> Write:
    """Writes the workspace: rows of the suite ``mine``, other files by path, release sections."""

    def write(
        rows: list[dict[str, Any]], files: dict[str, str] | None = None, **release: Any
    ) -> Config:
        root: Path = write_workspace(workspace.root, release_body(**release)).root
        lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in rows)
        mix = "sources: {a: {file: a.txt, format: text, category: prose, weight: 1}}"
        for path, text in {
            "evalsets/business/math.jsonl": lines,
            "calib/mix.yaml": mix,
            "calib/a.txt": "Some text.",
            **(files or {}),
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return load_config(workspace)

    return write
