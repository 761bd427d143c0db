"""Bytes against real checkpoints of SmolLM2-135M, made by llm-compressor 0.14."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qpipe.config import QuantArgs
from qpipe.schemes import checkpoint_bytes
from tests.smollm2 import SMOLLM2
from tests.workspace_fixture import architecture_of, checked_in_scheme

# Bytes of the safetensors files.
REAL = {
    "awq-w4a16-brief": 114_029_456,
    "fp8-block": 162_944_392,
    "fp8-dynamic": 163_227_736,
    "fp8-dynamic-kv-fp8": 163_233_840,
    "fp8-static": 162_939_552,
    "gptq-w4a16": 114_029_456,
    "int8-w8a8": 163_226_688,
    "kv-fp8": 269_066_744,
    "mxfp4": 113_150_424,
    "mxfp4a16": 113_150_424,
    "nvfp4": 116_518_984,
    "nvfp4a16": 116_494_180,
    "rtn-w8a16": 163_253_072,
    "smoothquant-w8a8-rtn": 163_226_688,
}


@pytest.mark.parametrize("name", REAL)
def test_real_checkpoints(name: str) -> None:
    assert checkpoint_bytes(SMOLLM2, checked_in_scheme(name)) == pytest.approx(REAL[name], rel=2e-3)


def test_restored_modules_stay_wide() -> None:
    """A real fallback of ten units of SmolLM2."""
    scheme = checked_in_scheme("gptq-w4a16")
    wider = scheme.model_copy(update={"ignore": [*scheme.ignore, "down_proj"]})
    more = checkpoint_bytes(SMOLLM2, wider) - checkpoint_bytes(SMOLLM2, scheme)
    down = 30 * 576 * 1536
    assert more == pytest.approx(down * (2 - 0.5 - 2 / 64 - 0.5 / 64), rel=1e-3)


@given(
    outputs=st.integers(1, 300),
    inputs=st.integers(1, 300),
    group=st.sampled_from([8, 32, 64]),
    bits=st.sampled_from([4, 8]),
    symmetric=st.booleans(),
)
def test_packed_groups(outputs: int, inputs: int, group: int, bits: int, symmetric: bool) -> None:
    """Weights packed along inputs, a 16-bit scale a group, zero points packed along outputs."""
    scheme = checked_in_scheme("gptq-w4a16").model_copy(
        update={
            "weights": QuantArgs.model_validate(
                {
                    "num_bits": bits,
                    "type": "int",
                    "strategy": "group",
                    "group_size": group,
                    "symmetric": symmetric,
                }
            )
        }
    )
    model = architecture_of({"model.layers.0.q_proj": (outputs, inputs)}, layers=1, hidden=8)
    groups = ceil(inputs / group)
    zero_points = 0 if symmetric else 4 * ceil(outputs * bits / 32) * groups
    wanted = 4 * outputs * ceil(inputs * bits / 32) + 2 * outputs * groups + zero_points
    assert checkpoint_bytes(model, scheme) == 2 * 1024 * 8 + wanted + 16


def test_autoawq_packs_along_outputs() -> None:
    """Of a real one, made by AutoAWQ 0.2.9: qweight [in, out/8], qzeros, 16-bit scales."""
    scheme = checked_in_scheme("autoawq-w4a16")
    model = architecture_of({"model.layers.0.k_proj": (24, 128)}, layers=1, hidden=8)
    wanted = 128 * 3 * 4 + 2 * 3 * 4 + 2 * 24 * 2
    assert checkpoint_bytes(model, scheme) == 2 * 1024 * 8 + wanted
