from __future__ import annotations

from typing import Any

import pytest

from qpipe.schemes import declared, disagreement
from tests.workspace_fixture import REPO, checked_in_scheme

INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
INT8 = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
TOKEN = {"num_bits": 8, "type": "int", "strategy": "token", "symmetric": True, "dynamic": True}
KV = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}


def compressed(*groups: dict[str, Any], kv: dict[str, Any] | None = None) -> dict[str, Any]:
    named = {f"group_{i}": {"targets": ["Linear"], **group} for i, group in enumerate(groups)}
    body = {"quant_method": "compressed-tensors", "config_groups": named, "kv_cache_scheme": kv}
    return {"quantization_config": body}


def method(name: str, **body: Any) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": name, **body}}


AWQ = method("awq", bits=4, group_size=64, zero_point=True, version="gemm")
GPTQ = method("gptq", bits=4, group_size=128, sym=True, desc_act=False)
FP8 = method("fp8", activation_scheme="dynamic", weight_block_size=[128, 128])
# As tools write them, with fields that decide no number.
NOISY = {**INT4, "observer": "minmax", "observer_kwargs": {}, "actorder": None, "dynamic": False}


def args(bits: int, kind: str, strategy: str, **more: Any) -> dict[str, Any]:
    """As llm-compressor writes them, with all that it leaves unset."""
    unset = {"actorder": None, "block_structure": None, "group_size": None, "observer_kwargs": {}}
    said = {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": True}
    return {**unset, "dynamic": False, "observer": "minmax", **said, **more}


def saved(weights: dict[str, Any], activations: dict[str, Any] | None, form: str) -> dict[str, Any]:
    group = {"weights": weights, "input_activations": activations, "output_activations": None}
    return method(
        "compressed-tensors",
        config_groups={"group_0": {"targets": ["Linear"], **group}},
        format=form,
        global_compression_ratio=1.2,
        ignore=["lm_head"],
        kv_cache_scheme=None,
        quantization_status="compressed",
    )


# What `quantization_config` looks like in checkpoints that many people serve.
KNOWN = {
    "Qwen2.5-7B-Instruct-AWQ": method(
        "awq", bits=4, group_size=128, modules_to_not_convert=None, version="gemm", zero_point=True
    ),
    "Qwen2.5-7B-Instruct-GPTQ-Int4": method(
        "gptq",
        batch_size=1,
        bits=4,
        block_name_to_quantize=None,
        damp_percent=0.01,
        desc_act=False,
        exllama_config={"version": 1},
        group_size=128,
        modules_in_block_to_quantize=None,
        sym=True,
        true_sequential=True,
        use_exllama=True,
    ),
    "Llama-3.1-8B-Instruct-FP8-dynamic": saved(
        args(8, "float", "channel"),
        args(8, "float", "token", dynamic=True, observer="memoryless"),
        "float-quantized",
    ),
    "Llama-3.1-8B-Instruct-quantized.w8a8": saved(
        args(8, "int", "channel", observer="mse"),
        args(8, "int", "token", dynamic=True, observer=None),
        "int-quantized",
    ),
    "Llama-3.1-8B-Instruct-NVFP4": saved(
        args(4, "float", "tensor_group", group_size=16),
        args(4, "float", "tensor_group", group_size=16, dynamic="local"),
        "nvfp4-pack-quantized",
    ),
    "Qwen3-8B-FP8": method(
        "fp8", activation_scheme="dynamic", fmt="e4m3", weight_block_size=[128, 128]
    ),
}


@pytest.mark.parametrize(
    ("name", "scheme", "weights", "activations"),
    [
        ("Qwen2.5-7B-Instruct-AWQ", "awq-w4a16", (4, "int", 128, False), None),
        ("Qwen2.5-7B-Instruct-GPTQ-Int4", "gptq-w4a16", (4, "int", 128, True), None),
        ("Llama-3.1-8B-Instruct-FP8-dynamic", "fp8-dynamic", (8, "float", None, True), True),
        ("Llama-3.1-8B-Instruct-quantized.w8a8", "smoothquant-w8a8", (8, "int", None, True), True),
        ("Llama-3.1-8B-Instruct-NVFP4", "nvfp4", (4, "float", 16, True), "local"),
        ("Qwen3-8B-FP8", "fp8-block", (8, "float", None, True), True),
    ],
)
def test_well_known_checkpoints(
    name: str, scheme: str, weights: tuple[int, str, int | None, bool], activations: object
) -> None:
    """What they are, and that no scheme of another kernel is taken for theirs."""
    found = declared(KNOWN[name])
    assert (said := found.weights) is not None and found.kv_cache is None
    assert (said.num_bits, said.type, said.group_size, said.symmetric) == weights
    assert (None if found.activations is None else found.activations.dynamic) == activations
    assert disagreement(found, checked_in_scheme(scheme)) is None
    others = {"awq-w4a16", "fp8-dynamic", "int8-w8a8", "nvfp4", "fp8-block", "kv-fp8"}
    same = {"gptq-w4a16": "awq-w4a16", "smoothquant-w8a8": "int8-w8a8"}
    for other in others - {same.get(scheme, scheme)}:
        assert disagreement(found, checked_in_scheme(other)) is not None


@pytest.mark.parametrize(
    ("config", "scheme"),
    [
        (compressed({"weights": INT4}), "gptq-w4a16"),
        (compressed({"weights": NOISY}), "gptq-w4a16"),
        (compressed({"weights": INT8, "input_activations": TOKEN}), "smoothquant-w8a8"),
        (compressed({"weights": INT8}), "rtn-w8a16"),
        (compressed(kv=KV), "kv-fp8"),
        (compressed({"weights": INT4}, kv=KV), "gptq-w4a16-kv-fp8"),
        (compressed({"weights": INT4}), "gptq-w4a16-kv-fp8-uncalibrated"),
        (AWQ, "awq-w4a16"),
        (GPTQ, "gptq-w4a16"),
        (FP8, "fp8-block"),
    ],
)
def test_what_agrees(config: dict[str, Any], scheme: str) -> None:
    assert disagreement(declared(config), checked_in_scheme(scheme)) is None


@pytest.mark.parametrize(
    ("config", "scheme", "said"),
    [
        (AWQ, "smoothquant-w8a8", "its weights are 4-bit int, a scale a group, the scheme's 8-bit"),
        (compressed({"weights": INT8}), "smoothquant-w8a8", "its activations are 16-bit"),
        (compressed({"weights": INT4}), "gptq-w4a16-kv-fp8", "its kv cache are 16-bit"),
        (compressed({"weights": INT8, "input_activations": TOKEN}), "rtn-w8a16", "activations"),
    ],
)
def test_what_disagrees(config: dict[str, Any], scheme: str, said: str) -> None:
    assert said in (disagreement(declared(config), checked_in_scheme(scheme)) or "")


def test_group_sizes_and_zero_points_are_the_checkpoints_own() -> None:
    assert (weights := declared(AWQ).weights) is not None
    assert (weights.group_size, weights.symmetric) == (64, False)
    assert (weights := declared(GPTQ).weights) is not None
    assert (weights.group_size, weights.symmetric) == (128, True)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (method("aqlm"), "the quantization method 'aqlm' is unknown; known: compressed-tensors"),
        ({}, "method 'None' is unknown"),
        (method("awq", bits=4), "not one of awq"),
        (compressed({"weights": INT4}, {"weights": INT8}), "quantized in several ways"),
        (method("gptq", bits=3, group_size=128, sym=True), "num_bits"),
    ],
)
def test_configs_that_cannot_be_read(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        declared(config)


def test_every_checked_in_scheme_agrees_with_what_it_saves() -> None:
    """As llm-compressor writes it: a scheme's own arguments."""
    for path in (REPO / "configs" / "schemes").glob("*.yaml"):
        scheme = checked_in_scheme(path.stem)
        saved = scheme.saved()
        if not scheme.steps:
            continue
        parts = {
            name: None if args is None else args.model_dump(exclude_none=True)
            for name, args in (
                ("weights", saved.weights),
                ("input_activations", saved.activations),
                ("kv", saved.kv_cache),
            )
        }
        kv = parts.pop("kv")
        groups = [parts] if parts["weights"] else []
        assert disagreement(declared(compressed(*groups, kv=kv)), scheme) is None, path.stem
