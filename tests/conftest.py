from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

from qpipe.paths import Workspace
from tests.workspace_fixture import fake_environment

# A deadline an example measures what else the machine does.
hypothesis.settings.register_profile("qpipe", deadline=None)
hypothesis.settings.load_profile("qpipe")

FakeEnvironment = Callable[..., Path]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty workspace whose environments are its own, whatever the caller shares."""
    monkeypatch.delenv("QPIPE_ENVS", raising=False)
    return Workspace(tmp_path)


@pytest.fixture
def make_environment(workspace: Workspace) -> FakeEnvironment:
    """Makes an environment that counts as installed: ``make_environment(name, python=None)``."""

    def make(name: str, python: str | None = None) -> Path:
        return fake_environment(workspace, name, python)

    return make
