from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workspace_fixture import REPO

# The environment's own programs, as `make` puts them ahead.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize("runs", [1, 2])
def test_dvc_reads_the_second_workspace(tmp_path: Path, runs: int) -> None:
    env = {**os.environ, "PATH": PATH}
    folder = tmp_path / "quick"
    release = "configs/examples/demo-quick.yaml"
    for _ in range(runs):
        subprocess.run(["scripts/workspace.sh", folder, release], cwd=REPO, env=env, check=True)
    listed = subprocess.run(
        ["dvc", "stage", "list", "--name-only"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "quantize@gptq-w4a16" in listed.stdout.split()
    assert (folder / "configs" / "release.yaml").read_bytes() == (REPO / release).read_bytes()
