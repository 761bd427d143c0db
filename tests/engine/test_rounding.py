from __future__ import annotations

import pytest

from qpipe.config._scheme import KV_KINDS
from tests.engine.test_verify import said_by

pytestmark = pytest.mark.engine


def test_the_simulation_finds_scales_as_kernels_do() -> None:
    said = said_by("rounding_planted.py", "serve")
    # Powers of two above max / 6: 1, 1, 2, 2, 4. Nothing is cut, and small values pay for it.
    assert said["mxfp4"] == [[6.0, 1.5], [6.0, 1.5], [6.0, 1.0], [12.0, 1.0], [12.0, 2.0]]
    # A step is max / 127.
    assert said["int8"] == [100.0, -127.0, 1.0, 0.0]
    assert said["int8 largest"] == pytest.approx([12.7, 0.1])
    assert said["mxfp4 zeros"] == said["int8 zeros"] == 0


def test_every_kv_kind_is_simulated() -> None:
    assert set(KV_KINDS) <= set(said_by("rounding_planted.py", "serve")["kv"])


def test_parts_of_a_fused_fp8_matrix_are_rounded_to_one_scale() -> None:
    said = said_by("twin_planted.py")
    assert said["apart"] == 0
    assert said["fused"] == 0
    assert said["moved"] > 0
