from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from qpipe.hardware import detect
from qpipe.schemes import kv_format
from tests.engine.conftest import ENVS

pytestmark = pytest.mark.engine


def test_the_cpu_cache_rounds_as_recorded() -> None:
    hardware = detect()
    if hardware.device != "cpu" or "avx512f" not in hardware.cpu_flags:
        pytest.skip("the engine has no FP8 cache on this CPU")
    script = Path(__file__).with_name("kv_rounding.py")
    command = [ENVS / "serve" / "bin" / "python", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    shares = json.loads(done.stdout.splitlines()[-1])
    assert shares.pop(kv_format("fp8", hardware)) == 1
    assert all(share < 0.9 for share in shares.values())
