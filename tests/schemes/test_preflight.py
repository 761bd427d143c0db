from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qpipe.config import Scheme
from qpipe.errors import ConfigError, Fault
from qpipe.model import Linear
from qpipe.schemes import preflight
from qpipe.schemes._split import head_faults
from tests.smollm2 import SMOLLM2
from tests.workspace_fixture import architecture_of, checked_in_scheme

# Shapes of SmolLM2-135M.
MODULES = [
    Linear("model.layers.0.self_attn.q_proj", 576, 576),
    Linear("model.layers.0.mlp.down_proj", 576, 1536),
    Linear("model.layers.1.self_attn.q_proj", 576, 576),
]


def scheme(ignore: list[str] | None = None, **weights: Any) -> Scheme:
    return Scheme.model_validate(
        {
            "title": "t",
            "steps": [{"method": "rtn"}],
            "weights": {"num_bits": 8, "type": "float", **weights} if weights else None,
            "kv_cache": {"num_bits": 8, "type": "float", "strategy": "tensor"},
            "ignore": ignore or ["lm_head"],
            "arithmetic": {
                "weights": "fp8" if weights else "bf16",
                "activations": "bf16",
                "kv": "fp8",
            },
        }
    )


def faults_of(tested: Scheme) -> tuple[Fault, ...]:
    with pytest.raises(ConfigError) as caught:
        preflight({"mine": tested}, MODULES)
    return caught.value.faults


def test_group_size_names_size_and_mend_once() -> None:
    (fault,) = faults_of(scheme(strategy="group", group_size=128))
    assert (fault.file, fault.key) == ("configs/schemes/mine.yaml", "weights.group_size")
    assert fault.message == "128 does not divide 576 inputs (model.layers.0.self_attn.q_proj)"
    assert fault.mend == "take 64, or ignore the module"


def test_each_distinct_size_is_named() -> None:
    assert len(faults_of(scheme(strategy="group", group_size=1024))) == 2


def test_all_schemes_are_reported_in_the_order_of_their_names() -> None:
    grouped = scheme(strategy="group", group_size=128)
    blocks = scheme(strategy="block", block_structure=[128, 128])
    with pytest.raises(ConfigError) as caught:
        preflight({"z": grouped, "a": blocks}, MODULES)
    assert [fault.file for fault in caught.value.faults] == [
        "configs/schemes/a.yaml",
        "configs/schemes/z.yaml",
    ]


def test_blocks() -> None:
    (fault,) = faults_of(scheme(strategy="block", block_structure=[128, 128]))
    assert fault.key == "weights.block_structure"
    assert fault.mend == "take 64 rows, or ignore the module"
    preflight({"mine": scheme(strategy="block", block_structure=[64, 128])}, MODULES)


@pytest.mark.parametrize("ignore", [["re:.*q_proj$"], ["q_proj"]])
def test_ignored_modules_need_not_fit(ignore: list[str]) -> None:
    preflight({"mine": scheme(ignore, strategy="group", group_size=128)}, MODULES)


@pytest.mark.parametrize("modules", [MODULES, []])
def test_quantizing_nothing_is_a_fault(modules: list[Linear]) -> None:
    mine = scheme([module.name for module in MODULES], strategy="channel")
    with pytest.raises(ConfigError, match="no linear module") as caught:
        preflight({"mine": mine}, modules)
    assert [fault.key for fault in caught.value.faults] == ["ignore"]


def test_what_has_no_groups_fits() -> None:
    preflight({"mine": scheme(strategy="channel")}, MODULES)
    preflight({"mine": scheme()}, MODULES)


@pytest.mark.parametrize(("devices", "fits"), [(1, True), (4, True), (16, False)])
def test_groups_of_each_devices_part(devices: int, fits: bool) -> None:
    """1536 inputs of down_proj in 16 parts of 96; what is split by outputs stays whole."""
    mine = scheme(strategy="group", group_size=64)
    if fits:
        preflight({"mine": mine}, MODULES, {"mine": devices, "other": 16})
        return
    with pytest.raises(ConfigError) as caught:
        preflight({"mine": mine}, MODULES, {"mine": devices})
    (fault,) = caught.value.faults
    assert fault.message == (
        "64 does not divide 96 inputs on each of 16 devices (model.layers.0.mlp.down_proj)"
    )
    assert fault.mend == "take 32, or ignore the module"


def faults_of_model(tested: Scheme, devices: int = 1) -> list[Fault]:
    try:
        preflight({"mine": tested}, SMOLLM2.linears, {"mine": devices}, SMOLLM2)
    except ConfigError as error:
        return list(error.faults)
    return []


def test_part_of_a_fused_unit_is_told_once() -> None:
    (fault,) = faults_of_model(scheme(["lm_head", "q_proj"], strategy="channel"))
    assert (fault.file, fault.key) == ("configs/schemes/mine.yaml", "ignore")
    assert fault.message == (
        "of model.layers.0.self_attn.qkv_proj and 29 more, which the engine fuses, only q_proj is ignored"
    )
    assert fault.mend == "ignore k_proj, v_proj too, or no part of it"


@pytest.mark.parametrize(
    "ignore",
    [
        ["re:.*(q|k|v)_proj$"],
        ["gate_proj", "up_proj"],
        ["down_proj"],
        ["re:.*layers\\.0\\."],
        ["model.embed_tokens"],
    ],
)
def test_whole_units_may_be_ignored(ignore: list[str]) -> None:
    assert faults_of_model(scheme(ignore, strategy="channel")) == []


def test_ignored_names_must_be_there() -> None:
    found = faults_of_model(scheme(["lm_head", "lm_heat", "re:.*vision.*"], strategy="channel"))
    assert [fault.message for fault in found] == [
        "'lm_heat' matches no module of this model",
        "'re:.*vision.*' matches no module of this model",
    ]


def test_a_mistyped_name_and_a_torn_unit_are_told_together() -> None:
    assert len(faults_of_model(scheme(["up_proj", "hed"], strategy="group", group_size=128))) == 3


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (2, "9 attention heads do not split over 2 devices"),
        (1, None),
        (3, None),
        (9, "1536 inputs do not split over 9 devices (model.layers.0.mlp.down_proj)"),
    ],
)
def test_heads_and_outputs_on_each_device(devices: int, message: str | None) -> None:
    """With 9 devices each of the 3 key-value heads is copied to three."""
    found = faults_of_model(scheme(strategy="channel"), devices)
    assert {fault.file for fault in found} <= {"configs/release.yaml"}
    assert [fault.message for fault in found][:1] == ([message] if message else [])
    if devices == 2:
        assert found[0].mend == "take one of 1, 3, 9"


def test_heads_count_for_a_quantized_cache_alone() -> None:
    assert [fault.key for fault in faults_of_model(scheme(), 2)] == ["serve.tensor_parallel_size"]


def test_blocks_on_each_device() -> None:
    blocks = scheme(strategy="block", block_structure=[64, 128])
    assert faults_of_model(blocks) == []
    assert [(fault.key, fault.message) for fault in faults_of_model(blocks, 3)] == [
        (
            "weights.block_structure",
            "128 does not divide 192 inputs on each of 3 devices (model.layers.0.self_attn.o_proj)",
        )
    ]
    taller = faults_of_model(scheme(strategy="block", block_structure=[192, 64]), 3)
    assert [fault.message for fault in taller] == [
        "192 does not divide 512 outputs on each of 3 devices (model.layers.0.mlp.gate_proj)",
        "192 does not divide 64 outputs on each of 3 devices (model.layers.0.self_attn.k_proj)",
    ]


def test_a_fused_matrix_is_not_its_last_part() -> None:
    """The outputs of qkv_proj are not those of v_proj, which split by key-value heads."""
    fused = {"model.layers.0.self_attn.qkv_proj": (576, 192)}
    sizes = {"heads": 3, "kv_heads": 3, "head_dim": 64}
    model = architecture_of(fused, layers=1, hidden=192, **sizes)
    blocks = scheme(strategy="block", block_structure=[576, 64])
    preflight({"mine": blocks}, model.linears, {"mine": 3}, model)


def test_packed_integers_of_each_device() -> None:
    odd = architecture_of({"model.layers.0.mlp.down_proj": (60, 96)}, layers=1, hidden=60)
    mine = checked_in_scheme("rtn-w4a16")
    weights = mine.weights
    assert weights is not None
    channel = weights.model_copy(update={"strategy": "channel", "group_size": None})
    mine = mine.model_copy(update={"weights": channel})
    with pytest.raises(ConfigError) as caught:
        preflight({"mine": mine}, odd.linears, {"mine": 24})
    assert [fault.message for fault in caught.value.faults] == [
        "8 values an int32 do not divide 4 inputs on each of 24 devices (model.layers.0.mlp.down_proj)",
        "8 values an int32 do not divide 60 outputs (model.layers.0.mlp.down_proj)",
    ]
    assert {fault.key for fault in caught.value.faults} == {"weights.num_bits"}


@pytest.mark.parametrize("name", ["rtn-w4a16", "kv-fp8"])
def test_experts_are_refused_whatever_is_quantized(name: str) -> None:
    expert = {f"model.layers.0.mlp.experts.{n}.up_proj": (64, 64) for n in range(2)}
    model = architecture_of(expert, layers=1, hidden=64)
    schemes = {name: checked_in_scheme(name) for name in (name, "kv-int4")}
    with pytest.raises(ConfigError) as caught:
        preflight(schemes, model.linears, architecture=model)
    assert [fault.key for fault in caught.value.faults] == ["model.source"]
    del schemes[name]
    preflight(schemes, model.linears, architecture=model)  # the engine alone quantizes


@given(
    heads=st.integers(1, 64),
    kv_heads=st.integers(1, 64),
    devices=st.integers(1, 16),
)
def test_heads_split_as_in_the_engine(heads: int, kv_heads: int, devices: int) -> None:
    """``QKVParallelLinear`` divides both without remainder, or copies key-value heads."""
    model = architecture_of({}, layers=1, hidden=64, heads=heads, kv_heads=kv_heads, head_dim=64)
    whole = heads % devices == 0
    whole &= devices % kv_heads == 0 if devices >= kv_heads else kv_heads % devices == 0
    assert (list(head_faults(model, devices)) == []) == whole
