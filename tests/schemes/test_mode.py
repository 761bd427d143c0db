from __future__ import annotations

import json

import pytest

from qpipe.hardware import Hardware
from qpipe.schemes import mode_of
from tests.workspace_fixture import A100, AMX, AVX2, H100, REPO, checked_in_scheme

MACHINES = {"AMX": AMX, "AVX2": AVX2, "A100": A100, "H100": H100}
# Mode, then weights / activations / KV as they run.
TABLE = {
    "awq-w4a16": {
        "AMX": "native int4 bf16 bf16",
        "AVX2": "simulated int4 fp32 fp32",
        "A100": "native int4 bf16 bf16",
        "H100": "native int4 bf16 bf16",
    },
    "gptq-w4a16": {
        "AMX": "native int4 bf16 bf16",
        "AVX2": "simulated int4 fp32 fp32",
        "A100": "native int4 bf16 bf16",
        "H100": "native int4 bf16 bf16",
    },
    "smoothquant-w8a8": {
        "AMX": "native int8 int8 bf16",
        "AVX2": "simulated int8 int8 fp32",
        "A100": "native int8 int8 bf16",
        "H100": "native int8 int8 bf16",
    },
    "fp8-block": {
        "AMX": "native fp8 bf16 bf16",
        "AVX2": "simulated fp8 fp8 fp32",
        "A100": "simulated fp8 fp8 bf16",
        "H100": "native fp8 fp8 bf16",
    },
    "fp8-dynamic": {
        "AMX": "simulated fp8 fp8 bf16",
        "AVX2": "simulated fp8 fp8 fp32",
        "A100": "simulated fp8 fp8 bf16",
        "H100": "native fp8 fp8 bf16",
    },
    "kv-fp8": {
        "AMX": "native bf16 bf16 fp8-truncated",
        "AVX2": "simulated fp32 fp32 fp8",
        "A100": "unsupported bf16 bf16 fp8",
        "H100": "native bf16 bf16 fp8",
    },
    "kv-int8": {
        "AMX": "simulated bf16 bf16 int8",
        "AVX2": "simulated fp32 fp32 int8",
        "A100": "native bf16 bf16 int8",
        "H100": "native bf16 bf16 int8",
    },
    "kv-int4": {
        "AMX": "simulated bf16 bf16 int4",
        "AVX2": "simulated fp32 fp32 int4",
        "A100": "native bf16 bf16 int4",
        "H100": "native bf16 bf16 int4",
    },
    "gptq-w4a8": {
        "AMX": "native int4 int8 bf16",
        "AVX2": "simulated int4 int8 fp32",
        "A100": "simulated int4 int8 bf16",
        "H100": "simulated int4 int8 bf16",
    },
    "rtn-w8a16": {
        "AMX": "simulated int8 bf16 bf16",
        "AVX2": "simulated int8 fp32 fp32",
        "A100": "native int8 bf16 bf16",
        "H100": "native int8 bf16 bf16",
    },
    "nvfp4": {
        "AMX": "simulated nvfp4 nvfp4 bf16",
        "AVX2": "simulated nvfp4 nvfp4 fp32",
        "A100": "simulated nvfp4 nvfp4 bf16",
        "H100": "simulated nvfp4 nvfp4 bf16",
    },
    "mxfp4": {
        "AMX": "simulated mxfp4 mxfp4 bf16",
        "AVX2": "simulated mxfp4 mxfp4 fp32",
        "A100": "simulated mxfp4 mxfp4 bf16",
        "H100": "simulated mxfp4 mxfp4 bf16",
    },
    "nvfp4a16": {
        "AMX": "simulated nvfp4 bf16 bf16",
        "AVX2": "simulated nvfp4 fp32 fp32",
        "A100": "native nvfp4 bf16 bf16",
        "H100": "native nvfp4 bf16 bf16",
    },
    "mxfp4a16": {
        "AMX": "simulated mxfp4 bf16 bf16",
        "AVX2": "simulated mxfp4 fp32 fp32",
        "A100": "native mxfp4 bf16 bf16",
        "H100": "native mxfp4 bf16 bf16",
    },
    "w4afp8": {
        "AMX": "simulated int4 fp8 bf16",
        "AVX2": "simulated int4 fp8 fp32",
        "A100": "simulated int4 fp8 bf16",
        "H100": "simulated int4 fp8 bf16",
    },
    "gptq-w4a16-kv-fp8": {
        "AMX": "native int4 bf16 fp8-truncated",
        "AVX2": "simulated int4 fp32 fp8",
        "A100": "unsupported int4 bf16 fp8",
        "H100": "native int4 bf16 fp8",
    },
    "smoothquant-w8a8-kv-fp8": {
        "AMX": "native int8 int8 fp8-truncated",
        "AVX2": "simulated int8 int8 fp8",
        "A100": "unsupported int8 int8 fp8",
        "H100": "native int8 int8 fp8",
    },
    "fp8-dynamic-kv-fp8": {
        "AMX": "simulated fp8 fp8 fp8",
        "AVX2": "simulated fp8 fp8 fp8",
        "A100": "unsupported fp8 fp8 fp8",
        "H100": "native fp8 fp8 fp8",
    },
}
# The same arithmetic, found by a shorter search or by rounding.
TABLE["awq-w4a16-brief"] = TABLE["autoawq-w4a16"] = TABLE["awq-w4a16"]
TABLE["smoothquant-w8a8-rtn"] = TABLE["int8-w8a8"] = TABLE["smoothquant-w8a8"]
TABLE["rtn-w4a16"] = TABLE["gptq-w4a16"]
TABLE["gptq-w8a16"] = TABLE["rtn-w8a16"]
TABLE["fp8-static"] = TABLE["fp8-dynamic"]
# The same but for scales, which are 1.
for name in ("kv-fp8", "gptq-w4a16-kv-fp8", "smoothquant-w8a8-kv-fp8", "fp8-dynamic-kv-fp8"):
    TABLE[f"{name}-uncalibrated"] = TABLE[name]


def test_table_has_every_checked_in_scheme() -> None:
    found = {path.stem for path in (REPO / "configs" / "schemes").glob("*.yaml")}
    assert found == set(TABLE)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", TABLE)
def test_mode(name: str, machine: str) -> None:
    found = mode_of(checked_in_scheme(name), MACHINES[machine])
    runs = found.arithmetic
    said = f"{found.mode} {runs.weights} {runs.activations} {runs.kv}"
    assert said == TABLE[name][machine]
    assert found.reason
    assert json.loads(json.dumps(found.record()))["mode"] == found.mode


@pytest.mark.parametrize(
    ("hardware", "wide"),
    [
        (AMX, "bf16"),
        (AVX2, "fp32"),
        (A100, "bf16"),
        (Hardware("x", frozenset(), 1, 1.0, ("T4",), 7.5), "fp16"),
    ],
)
def test_baseline_is_native_everywhere(hardware: Hardware, wide: str) -> None:
    found = mode_of(None, hardware)
    assert found.record() == {
        "mode": "native",
        "mode_reason": "unquantized",
        "arithmetic": {"weights": wide, "activations": wide, "kv": wide},
    }


def test_reason_names_what_is_lacking() -> None:
    gptq, fp8 = checked_in_scheme("gptq-w4a16"), checked_in_scheme("fp8-dynamic")
    assert "this CPU has no avx512f" in mode_of(gptq, AVX2).reason
    assert "needs compute capability 8.9" in mode_of(fp8, A100).reason
    assert "no CPU kernel" in mode_of(fp8, AMX).reason


def test_kernels_for_one_generation_and_one_group_size() -> None:
    scheme = checked_in_scheme("w4afp8")
    assert "takes groups of 128" in mode_of(scheme, H100).reason
    assert scheme.weights is not None
    wide = scheme.weights.model_copy(update={"group_size": 128})
    scheme = scheme.model_copy(update={"weights": wide})
    assert mode_of(scheme, H100).mode == "native"
    newer = Hardware("host", frozenset(), 8, 64.0, ("NVIDIA B200",), 10.0)
    assert "and no other" in mode_of(scheme, newer).reason


@pytest.mark.parametrize(
    "name", [name for name, runs in TABLE.items() if runs["H100"].startswith("native int8 int8")]
)
def test_int8_products_ended_with_blackwell(name: str) -> None:
    newer = Hardware("host", frozenset(), 8, 64.0, ("NVIDIA B200",), 10.0)
    assert mode_of(checked_in_scheme(name), newer).mode != "native"
    assert "below 10.0" in mode_of(checked_in_scheme(name), newer).reason


def test_a_variant_is_simulated_where_it_says_so() -> None:
    """What the engine could run natively, and with the scheme's arithmetic, not one kernel's."""
    scheme = checked_in_scheme("fp8-block")
    native, asked = mode_of(scheme, AMX), mode_of(scheme, AMX, simulate=True)
    assert (native.mode, native.arithmetic.activations) == ("native", "bf16")
    assert (asked.mode, asked.arithmetic.activations) == ("simulated", "fp8")
    assert "its variant says so" in asked.reason
