from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

Qpipe = Callable[..., subprocess.CompletedProcess[str]]


def test_a_scheme_is_verified_on_a_real_server(workspace: Path, qpipe: Qpipe) -> None:
    """Static scales, an observer, groups and the plugin at once."""
    done = qpipe("doctor", "--verify", "nvfp4", "--json")
    (entry,) = json.loads(done.stdout)["schemes"].values()
    assert entry["verified"]["outcome"] == "ran" and 0 < entry["verified"]["kl"] < 5
    # It is remembered until the scheme changes.
    (again,) = json.loads(qpipe("doctor", "nvfp4", "--json").stdout)["schemes"].values()
    assert again["verified"] == entry["verified"]
    path = workspace / "configs" / "schemes" / "nvfp4.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("title: ", "title: another "), encoding="utf-8")
    (changed,) = json.loads(qpipe("doctor", "nvfp4", "--json").stdout)["schemes"].values()
    assert changed["verified"] is None
    path.write_text(text, encoding="utf-8")
