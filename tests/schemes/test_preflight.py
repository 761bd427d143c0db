from __future__ import annotations

from typing import Any

import pytest

from qpipe.config import Scheme
from qpipe.errors import ConfigError, Fault
from qpipe.model import Linear
from qpipe.schemes import preflight

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
            "weights": {"num_bits": 4, "type": "float", **weights} if weights else None,
            "kv_cache": {"num_bits": 8, "type": "float", "strategy": "tensor"},
            "ignore": ignore or ["lm_head"],
            "arithmetic": {
                "weights": "fp4" if weights else "bf16",
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
