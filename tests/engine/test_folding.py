from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.engine.conftest import ENVS

pytestmark = pytest.mark.engine


def test_moved_scales_are_folded_back() -> None:
    """With heads that share keys and values, and without, and with rows of zeros; errors count in the smoothed frame."""
    script = Path(__file__).with_name("fold_tiny.py")
    command = [ENVS / "quantize" / "bin" / "python", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["folded"] == pytest.approx([0, 0, 0], abs=1e-5)
    assert found["smoothed"] == pytest.approx([0.01] * 5, rel=0.05)
