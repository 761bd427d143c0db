"""Times against those of SmolLM2-135M on two AVX2 cores: the whole of ``qpipe quantize``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qpipe.forecast._time import CUDA_THROUGHPUT, seconds_to_quantize, throughput
from tests.smollm2 import SMOLLM2
from tests.workspace_fixture import AVX2, H100, checked_in_scheme

FLOPS = 1.1e11
"""What ``throughput`` found on that machine."""
TOKENS = 256
SCHEMES = st.sampled_from(["gptq-w4a16", "awq-w4a16", "smoothquant-w8a8", "kv-fp8", "rtn-w4a16"])


@pytest.mark.parametrize(
    ("name", "rows", "measured"),
    [
        ("rtn-w4a16", 0, 13),
        ("fp8-block", 0, 14),
        ("nvfp4", 12, 41),
        ("kv-fp8", 12, 38),
        ("kv-fp8", 16, 57),
        ("smoothquant-w8a8-rtn", 12, 36),
        ("smoothquant-w8a8-rtn", 16, 43),
        ("gptq-w4a16", 8, 117),
        ("gptq-w4a16", 12, 104),
        ("gptq-w4a16", 32, 161),
        ("awq-w4a16-brief", 6, 74),
        ("awq-w4a16-brief", 8, 87),
    ],
)
def test_within_a_factor_of_three(name: str, rows: int, measured: float) -> None:
    found = seconds_to_quantize(SMOLLM2, checked_in_scheme(name), rows, TOKENS, FLOPS)
    assert measured / 3 < found < measured * 3


@given(name=SCHEMES, rows=st.integers(1, 512), tokens=st.integers(16, 4096))
def test_more_takes_longer(name: str, rows: int, tokens: int) -> None:
    scheme = checked_in_scheme(name)

    def seconds(rows: int, tokens: int, flops: float = FLOPS) -> float:
        return seconds_to_quantize(SMOLLM2, scheme, rows, tokens, flops)

    least = seconds(rows, tokens)
    assert seconds(rows, tokens, FLOPS / 2) >= least > 0
    looks = name != "rtn-w4a16"
    assert (seconds(rows + 1, tokens) > least) == (seconds(rows, tokens + 1) > least) == looks


def test_a_longer_search_takes_longer() -> None:
    brief, full = (checked_in_scheme(name) for name in ("awq-w4a16-brief", "awq-w4a16"))
    brief_s, full_s = (seconds_to_quantize(SMOLLM2, s, 8, TOKENS, FLOPS) for s in (brief, full))
    assert full_s > 2 * brief_s


def test_throughput() -> None:
    assert 1e8 < throughput(AVX2) < 1e14
    assert throughput(H100) == CUDA_THROUGHPUT
