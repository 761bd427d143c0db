from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

Qpipe = Callable[..., subprocess.CompletedProcess[str]]


def test_schemes_are_verified_on_a_real_server(workspace: Path, qpipe: Qpipe) -> None:
    """Static scales, an observer, groups and the plugin at once; AWQ without an accelerator."""
    names = ("nvfp4", "awq-w4a16-brief")

    def seen(*options: str) -> dict[str, dict]:
        done = qpipe("doctor", *options, *names, "--json")
        return {k: v["verified"] for k, v in json.loads(done.stdout)["schemes"].items()}

    found = seen("--verify")
    for name in names:
        assert found[name]["outcome"] == "ran" and 0 < found[name]["kl"] < 5
    # It is remembered until the scheme changes.
    assert seen() == found
    path = workspace / "configs" / "schemes" / "nvfp4.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("title: ", "title: another "), encoding="utf-8")
    assert seen() == {**found, "nvfp4": None}
    path.write_text(text, encoding="utf-8")
