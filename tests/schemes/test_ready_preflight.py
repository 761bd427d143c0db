from __future__ import annotations

from typing import Any

import pytest

from qpipe.schemes import declared, preflight_checkpoint
from tests.schemes.test_declared import AWQ, GPTQ, INT4, compressed
from tests.smollm2 import SMOLLM2
from tests.workspace_fixture import checked_in_scheme

# SmolLM2-135M: 576 wide, 9 heads and 3 of keys and values, 1536 inside.
W4A16 = checked_in_scheme("gptq-w4a16")


def said(config: dict[str, Any], devices: int = 1) -> list[tuple[str, str]]:
    return preflight_checkpoint(declared(config), W4A16, SMOLLM2, devices)


def without(config: dict[str, Any], **entries: Any) -> dict[str, Any]:
    return {"quantization_config": {**config["quantization_config"], **entries}}


SIXTYFOUR = compressed({"weights": {**INT4, "group_size": 64}})
AWQ_QKV = ["q_proj", "k_proj", "v_proj"]


def test_its_own_group_size_counts() -> None:
    assert said(AWQ) == [] and said(SIXTYFOUR) == []
    found = said(GPTQ)
    assert found[0][0].startswith("128 does not divide 576 inputs")
    assert {mend for _, mend in found} == {"take another checkpoint of this model"}


def test_fewer_devices_that_would_do_are_named() -> None:
    found = said(SIXTYFOUR, devices=9)
    assert found and all("set `serve.tensor_parallel_size` to 1 or 3, or" in m for _, m in found)


@pytest.mark.parametrize(
    "config",
    [
        without(AWQ, modules_to_not_convert=AWQ_QKV),
        without(AWQ, modules_to_not_convert=["self_attn", "visual"]),
        without(SIXTYFOUR, ignore=["lm_head", "re:.*self_attn.*", "re:vision_tower.*"]),
        without(GPTQ, group_size=64, dynamic={"-:.*self_attn.*": {}}),
        without(GPTQ, group_size=64, dynamic={"+:.*self_attn.*": {"bits": 4}}),
        compressed({"weights": {**INT4, "group_size": 64}, "targets": ["re:.*mlp.*"]}),
    ],
)
def test_whole_units_may_be_left_out(config: dict[str, Any]) -> None:
    assert said(config) == []


@pytest.mark.parametrize(
    "config",
    [
        without(AWQ, modules_to_not_convert=["q_proj"]),
        without(SIXTYFOUR, ignore=["lm_head", "re:.*q_proj"]),
        without(GPTQ, group_size=64, dynamic={"-:.*q_proj.*": {}}),
        compressed(
            {"weights": {**INT4, "group_size": 64}, "targets": ["re:.*(k|v|o)_proj", "re:.*mlp.*"]}
        ),
    ],
)
def test_part_of_a_fused_unit(config: dict[str, Any]) -> None:
    ((message, mend),) = said(config)
    assert "which the engine fuses, only q_proj is ignored" in message
    assert mend == "take another checkpoint of this model"


def test_left_out_modules_need_not_fit() -> None:
    """1536 inputs of down_proj do fit groups of 128; all others, 576 wide, stay at 16 bits."""
    others = ["re:.*self_attn.*", "re:.*(gate|up)_proj"]
    assert said(without(compressed({"weights": INT4}), ignore=others)) == []
