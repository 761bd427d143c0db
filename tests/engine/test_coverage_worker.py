from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.engine.conftest import ENVS

pytestmark = pytest.mark.engine


def test_channels_of_a_known_model() -> None:
    script = Path(__file__).with_name("coverage_planted.py")
    command = [ENVS / "quantize" / "bin" / "python", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    said = json.loads(done.stdout.splitlines()[-1])
    # Tokens 1, 3, 2, 1, 1; the 99 at the beginning of each row counts for nothing.
    assert said["largest"] == [3, 6, 9, 12]
    assert said["moments"] == pytest.approx([3.2 * k * k for k in (1, 2, 3, 4)])
    assert (said["tokens"], said["batches"], said["hooks left"]) == (5, True, 0)
    assert said["like"]["exceeding"] == 0 and said["like"]["exceeding_reference"] is None
    assert said["like"]["similarity"] == pytest.approx(1)
    # 5 of 3 is beyond the factor everywhere, 5 of 6 nowhere: its own category is no reference.
    assert (said["more"]["exceeding"], said["more"]["exceeding_reference"]) == (1, 0)
    assert said["rest"] == [5, 10, 15, 20] and said["no rest"] is None
    spiked = said["spiked"]
    assert (spiked["worst_module"], spiked["least_similar_module"]) == ("b", "b")
    assert spiked["exceeding"] == pytest.approx(1 / 8)
    assert spiked["worst_exceeding"] == pytest.approx(1 / 4)
    assert spiked["least_similarity"] < 0.9
