from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qpipe.forecast._memory import quantizing_memory
from qpipe.room import GIB
from tests.smollm2 import SMOLLM2
from tests.workspace_fixture import AMX, AVX2, H100, checked_in_scheme

TOKENS = 256


def test_weights_are_wide_where_bfloat16_is_emulated() -> None:
    scheme = checked_in_scheme("rtn-w4a16")
    narrow, wide = (quantizing_memory(SMOLLM2, scheme, 0, TOKENS, each) for each in (AMX, AVX2))
    assert (narrow.weights, wide.weights) == (2 * SMOLLM2.values, 4 * SMOLLM2.values)
    assert wide.host == GIB + wide.weights and wide.gpu == 0


def test_autoawq_is_wide_on_every_cpu() -> None:
    scheme = checked_in_scheme("autoawq-w4a16")
    found = [quantizing_memory(SMOLLM2, scheme, 8, TOKENS, each).weights for each in (AMX, H100)]
    assert found == [4 * SMOLLM2.values, 2 * SMOLLM2.values]
    ready_made = scheme.model_copy(update={"steps": []})
    assert quantizing_memory(SMOLLM2, ready_made, 0, TOKENS, AMX).weights == 2 * SMOLLM2.values


def test_a_real_run() -> None:
    """GPTQ on 32 rows took 1.19 GiB on an AVX2 machine."""
    found = quantizing_memory(SMOLLM2, checked_in_scheme("gptq-w4a16"), 32, TOKENS, AVX2)
    assert 1.19 < found.host / GIB < 2 * 1.19


def test_what_methods_keep() -> None:
    gptq, awq, kv = (
        quantizing_memory(SMOLLM2, checked_in_scheme(name), 8, TOKENS, AMX).host
        for name in ("gptq-w4a16", "awq-w4a16", "kv-fp8")
    )
    hessians = 4 * (6 * 576**2 + 1536**2)
    assert gptq - kv == hessians + 4 * (2 * 1536**2 + 3 * 576 * 1536)
    # Inputs of attention, MLP and its last product, and two outputs.
    assert awq - kv == 8 * TOKENS * 2 * (4 * 576 + 1536)


def test_a_gpu_holds_one_block() -> None:
    found = quantizing_memory(SMOLLM2, checked_in_scheme("gptq-w4a16"), 8, TOKENS, H100)
    assert GIB < found.gpu < GIB + 2 * SMOLLM2.values
    assert found.host > found.weights == 2 * SMOLLM2.values
    untouched = quantizing_memory(SMOLLM2, checked_in_scheme("rtn-w4a16"), 0, TOKENS, H100)
    assert untouched.gpu == 0


@given(
    name=st.sampled_from(["gptq-w4a16", "awq-w4a16", "smoothquant-w8a8", "kv-fp8", "rtn-w4a16"]),
    rows=st.integers(0, 512),
)
def test_rows_never_free_memory(name: str, rows: int) -> None:
    scheme = checked_in_scheme(name)
    for machine in (AVX2, H100):
        fewer, more = (
            quantizing_memory(SMOLLM2, scheme, each, TOKENS, machine).host
            for each in (rows, rows + 1)
        )
        assert more >= fewer >= quantizing_memory(SMOLLM2, scheme, 0, TOKENS, machine).weights
