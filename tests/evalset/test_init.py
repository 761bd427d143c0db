from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from qpipe.config import load_config
from qpipe.errors import ConfigError
from qpipe.evalset import check_evalsets, init_evalset
from qpipe.evaluation import SCORERS, Row
from qpipe.paths import Workspace
from tests.workspace_fixture import release_body, write_workspace


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    write_workspace(workspace.root, release_body())
    (workspace.root / "calib" / "mix.yaml").write_text(
        "sources: {a: {file: a.txt, format: text, category: prose, weight: 1}}"
    )
    (workspace.root / "calib" / "a.txt").write_text("Some text.")
    return workspace


def test_a_new_suite_is_sound(workspace: Workspace) -> None:
    paths = init_evalset(workspace, "support")
    folder = workspace.root / "evalsets" / "business"
    assert paths == [folder / "support.yaml", *sorted((folder / "support").glob("*.jsonl"))]
    assert check_evalsets(load_config(workspace), "support") == {"support": 14}


def test_two_rows_for_every_scorer(workspace: Workspace) -> None:
    suite, *files = init_evalset(workspace, "support")
    rows = [
        Row.model_validate_json(line) for path in files for line in path.read_text().splitlines()
    ]
    assert Counter(row.scorer for row in rows) == dict.fromkeys(SCORERS, 2)
    # The one that is left out says how to have it.
    assert "  # code: support/code.jsonl\n" in suite.read_text()
    named = yaml.safe_load(suite.read_text().replace("# code:", "code:"))["files"]
    assert sorted(named.values()) == sorted(f"support/{path.name}" for path in files)


def test_the_suite_can_be_asked(workspace: Workspace) -> None:
    init_evalset(workspace, "support")
    body = yaml.safe_load(workspace.release.read_text())
    body["evaluation"]["suites"] = ["support"]
    workspace.release.write_text(json.dumps(body))
    assert list(load_config(workspace).suites) == ["support"]


@pytest.mark.parametrize(
    "there", ["business/support.yaml", "business/support/x.jsonl", "public/support.yaml"]
)
def test_nothing_is_overwritten(workspace: Workspace, there: str) -> None:
    path = workspace.root / "evalsets" / there
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    before = sorted(workspace.root.rglob("*"))
    with pytest.raises(ConfigError, match="is there already"):
        init_evalset(workspace, "support")
    assert path.read_text() == "mine"
    assert sorted(workspace.root.rglob("*")) == before


@pytest.mark.parametrize("name", ["A", "a.b", "../a", "a b", ""])
def test_odd_names_are_refused(workspace: Workspace, name: str) -> None:
    before = sorted(workspace.root.rglob("*"))
    with pytest.raises(ConfigError, match="lower-case"):
        init_evalset(workspace, name)
    assert sorted(workspace.root.rglob("*")) == before


def test_it_needs_a_workspace(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="configs/"):
        init_evalset(Workspace(tmp_path / "elsewhere"), "support")
