from __future__ import annotations

import pytest

from qpipe.schemes import unit_modules, units_of

LAYER = "model.layers.0"
DENSE = [
    f"{LAYER}.{name}"
    for name in (
        "mlp.down_proj",
        "mlp.gate_proj",
        "mlp.up_proj",
        "self_attn.k_proj",
        "self_attn.o_proj",
        "self_attn.q_proj",
        "self_attn.v_proj",
    )
]


def test_what_the_engine_fuses_is_one_unit() -> None:
    assert {unit: len(modules) for unit, modules in units_of(DENSE).items()} == {
        f"{LAYER}.mlp.down_proj": 1,
        f"{LAYER}.mlp.gate_up_proj": 2,
        f"{LAYER}.self_attn.qkv_proj": 3,
        f"{LAYER}.self_attn.o_proj": 1,
    }


def test_layers_stay_apart() -> None:
    modules = [f"model.layers.{n}.self_attn.{p}_proj" for n in (1, 11) for p in "qkv"]
    assert list(units_of(modules)) == [
        "model.layers.1.self_attn.qkv_proj",
        "model.layers.11.self_attn.qkv_proj",
    ]


def test_experts_of_a_layer_are_one_unit() -> None:
    experts = [
        f"{LAYER}.mlp.experts.{n}.{part}_proj" for n in range(3) for part in ("gate", "up", "down")
    ]
    shared = [f"{LAYER}.mlp.shared_expert.{part}_proj" for part in ("gate", "down")]
    units = units_of([*experts, *shared])
    assert units[f"{LAYER}.mlp.experts"] == experts
    assert len(units) == 3


def test_every_module_is_in_one_unit() -> None:
    units = units_of(DENSE)
    assert sorted(module for modules in units.values() for module in modules) == DENSE
    assert unit_modules(DENSE, [f"{LAYER}.self_attn.qkv_proj"]) == [
        f"{LAYER}.self_attn.{part}_proj" for part in "kqv"
    ]
    with pytest.raises(KeyError):
        unit_modules(DENSE, ["no.such.unit"])
