from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.engine.conftest import ENVS

pytestmark = pytest.mark.engine


def test_moved_scales_are_folded_back() -> None:
    """With heads that share keys and values, and without."""
    script = Path(__file__).with_name("fold_tiny.py")
    command = [ENVS / "quantize" / "bin" / "python", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1]) == pytest.approx([0, 0], abs=1e-5)
