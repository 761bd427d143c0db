from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from qpipe.errors import ConfigError, EnvError, InvalidMeasurement, MissingInput
from qpipe.hardware import Hardware
from qpipe.paths import Workspace
from qpipe.serving import Plan, _plan, context_tokens, plan_serving
from tests.workspace_fixture import A100, AMX, AVX2, H100, silent, small_config, write_model


@pytest.fixture
def built(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    for name in ("bf16", "gptq", "fp8", "kv", "gptq-mixed"):
        write_model(workspace, name)
    monkeypatch.setattr(_plan, "simulated_checkpoint", lambda *_: Path("twin"))
    return workspace


def plan(workspace: Workspace, variant: str, hardware: Hardware = AMX, **changes: Any) -> Plan:
    return plan_serving(small_config(workspace, **changes), variant, hardware, silent)


def value(planned: Plan, flag: str) -> str | None:
    """What follows ``--flag``; ``None`` where it is absent."""
    arguments = planned.arguments
    if f"--{flag}" not in arguments:
        return None
    assert arguments.count(f"--{flag}") == 1
    return arguments[arguments.index(f"--{flag}") + 1]


def test_baseline(built: Workspace) -> None:
    found = plan(built, "bf16")
    assert value(found, "model") == str(built.model)
    assert value(found, "served-model-name") == "bf16"
    assert value(found, "dtype") == "bfloat16"
    assert value(found, "max-model-len") == "2048"
    assert int(value(found, "max-logprobs") or 0) >= 1024
    assert {"--enable-scale-out", "--enable-prompt-tokens-details"} <= set(found.arguments)
    assert "--enforce-eager" in found.arguments
    assert found.kernels == ()
    assert found.env["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert found.checkpoint_hash.startswith("bf16")


def test_native_variant_pins_its_arithmetic(built: Workspace) -> None:
    found = plan(built, "gptq")
    assert value(found, "model") == str(built.checkpoint("gptq"))
    assert value(found, "tokenizer") == value(found, "generation-config") == str(built.model)
    assert found.env["VLLM_CPU_INT4_W4A8"] == "0"
    assert found.kernels == ("CPUWNA16LinearKernel",)
    assert found.mode.mode == "native"
    assert plan(built, "gptq-mixed").env["VLLM_CPU_INT4_W4A8"] == "0"


def test_pins_win_and_are_recorded(built: Workspace) -> None:
    found = plan(built, "gptq", serve={"env": {"VLLM_CPU_INT4_W4A8": "1", "A": "b"}})
    assert found.env["VLLM_CPU_INT4_W4A8"] == "0"
    # What is recorded is part of the key under which cells are kept.
    assert found.serve.env == {"VLLM_CPU_INT4_W4A8": "0", "A": "b"}


@pytest.mark.parametrize(
    ("serve", "runs"),
    [
        ({}, ("int4", "bf16", "bf16")),
        ({"dtype": "float16"}, ("int4", "fp16", "fp16")),
        ({"kv_cache_dtype": "fp8"}, ("int4", "bf16", "fp8-truncated")),
        ({"kv_cache_dtype": "fp8_e5m2"}, ("int4", "bf16", "fp8_e5m2")),
        ({"kv_cache_dtype": "auto", "dtype": "auto"}, ("int4", "bf16", "bf16")),
    ],
)
def test_arithmetic_follows_serve(
    built: Workspace, serve: dict[str, Any], runs: tuple[str, str, str]
) -> None:
    found = plan(built, "gptq", serve=serve).mode.arithmetic
    assert (found.weights, found.activations, found.kv) == runs


def test_simulated_variant_serves_the_twin(built: Workspace) -> None:
    found = plan(built, "gptq", AVX2)
    assert found.mode.mode == "simulated"
    assert value(found, "model") == "twin"
    assert value(found, "dtype") == "float32"
    assert found.checkpoint_hash.startswith("gptq")
    assert found.kernels == () and found.simulated == {}
    assert "VLLM_CPU_INT4_W4A8" not in found.env


def test_simulated_kv_loads_the_extension(built: Workspace) -> None:
    found = plan(built, "kv", AVX2)
    assert value(found, "worker-extension-cls") == "simulation.Extension"
    assert found.env["QPIPE_KV_SCALES"] == str(Path("twin/kv_scales.json"))
    assert found.env["QPIPE_KV_DTYPE"] == "fp8"
    assert found.env["PYTHONPATH"].endswith("workers")
    assert found.simulated == {"kv": 1}
    assert plan(built, "kv", AMX).simulated == {}


def test_the_engines_own_kv_cache(built: Workspace) -> None:
    """Its flag is pinned where it is native; elsewhere keys and values are rounded as it would."""
    variants = {"gptq": {"scheme": "gptq-w4a16"}, "kv": {"scheme": "kv-int8"}}
    changes = {"variants": variants, "serve": {"kv_cache_dtype": "auto"}}
    native, simulated = (plan(built, "kv", machine, **changes) for machine in (A100, AVX2))
    assert value(native, "kv-cache-dtype") == "int8_per_token_head"
    assert native.mode.arithmetic.kv == "int8" and native.simulated == {}
    assert simulated.env["QPIPE_KV_DTYPE"] == "int8_per_token_head"
    assert value(simulated, "kv-cache-dtype") == "auto"
    assert "QPIPE_KV_SCALES" not in simulated.env and simulated.simulated == {"kv": 1}


def test_a_kernel_that_rounds_in_one_type_alone(built: Workspace) -> None:
    """In another type the engine would keep activations at 16 bits, by a kernel of the same name."""
    changes: dict[str, Any] = {"variants": {"gptq": {"scheme": "gptq-w4a8"}}}
    assert plan(built, "gptq", AMX, **changes).mode.arithmetic.activations == "int8"
    changes["serve"] = {"dtype": "float16"}
    with pytest.raises(ConfigError) as caught:
        plan(built, "gptq", AMX, **changes)
    (fault,) = caught.value.faults
    assert fault.key == "serve.dtype" and "16-bit activations" in fault.message
    changes["variants"] = {"gptq": {"scheme": "gptq-w4a8", "simulate": True}}
    assert plan(built, "gptq", AMX, **changes).mode.arithmetic.activations == "int8"


def test_simulated_activations_load_the_plugin(built: Workspace) -> None:
    """In every unit: the engine fuses q and k, and their products have one input."""
    found = plan(built, "fp8", AVX2)
    assert found.simulated == {"activations": 2}
    assert value(found, "worker-extension-cls") == "simulation.Extension"
    workers = Path(found.env["PYTHONPATH"])
    (entry,) = Distribution.discover(name="qpipe-simulation", path=[str(workers)])
    (point,) = entry.entry_points.select(group="vllm.general_plugins")
    module, _, function = point.value.partition(":")
    assert f"def {function}(" in (workers / f"{module}.py").read_text()
    assert plan(built, "fp8", AMX).simulated == {}


def test_cuda_has_no_cpu_settings(built: Workspace) -> None:
    found = plan(built, "gptq", H100)
    assert found.kernels == ()
    assert not any(
        name.startswith("VLLM_CPU_KV") or name == "OMP_NUM_THREADS" for name in found.env
    )
    assert value(found, "distributed-executor-backend") is None
    assert "--enforce-eager" not in found.arguments


def test_release_settings_reach_the_engine(built: Workspace) -> None:
    found = plan(
        built,
        "bf16",
        serve={
            "dtype": "float16",
            "max_model_len": 512,
            "enforce_eager": False,
            "prefix_caching": False,
            "kv_cache_gib": 0.5,
            "args": {"seed": 7, "disable-log-stats": True, "async-scheduling": False},
            "env": {"OMP_NUM_THREADS": "1", "A": "b"},
        },
    )
    assert value(found, "dtype") == "float16"
    assert value(found, "max-model-len") == "512"
    assert value(found, "seed") == "7"
    assert "--no-enable-prefix-caching" in found.arguments
    assert "--disable-log-stats" in found.arguments
    # Silence would leave the engine's default, which may be true.
    assert "--no-async-scheduling" in found.arguments
    assert "False" not in found.arguments
    assert "--enforce-eager" not in found.arguments
    assert found.env["VLLM_CPU_KVCACHE_SPACE"] == "0.5"
    assert (found.env["OMP_NUM_THREADS"], found.env["A"]) == ("1", "b")


@pytest.mark.parametrize("flag", ["disable-log-stats", "no-async-scheduling"])
def test_a_variant_takes_a_negative_flag_back(built: Workspace, flag: str) -> None:
    # The engine has no `--no-` form of these.
    found = plan(
        built, "bf16", serve={"args": {flag: True}}, baseline={"serve": {"args": {flag: False}}}
    )
    assert not [argument for argument in found.arguments if flag in argument]


def test_tensor_parallel_cpu_keeps_the_engines_executor(built: Workspace) -> None:
    found = plan(built, "bf16", serve={"tensor_parallel_size": 2})
    assert value(found, "tensor-parallel-size") == "2"
    assert value(found, "distributed-executor-backend") is None


def test_remote_code_is_off_unless_asked(built: Workspace) -> None:
    assert "--trust-remote-code" not in plan(built, "bf16").arguments
    asked = plan(built, "bf16", model={"source": "path:x", "trust_remote_code": True})
    assert "--trust-remote-code" in asked.arguments


def test_unbuilt_variant(workspace: Workspace) -> None:
    with pytest.raises(MissingInput, match="qpipe model"):
        plan(workspace, "bf16")
    with pytest.raises(MissingInput, match="qpipe quantize gptq"):
        plan(workspace, "gptq")


@pytest.mark.parametrize(
    ("hardware", "dtype"), [(AMX, "bfloat16"), (AVX2, "float32"), (A100, "bfloat16")]
)
def test_auto_is_the_machines_type_and_recorded(
    built: Workspace, hardware: Hardware, dtype: str
) -> None:
    found = plan(built, "bf16", hardware, serve={"dtype": "auto"})
    assert value(found, "dtype") == dtype == found.serve.dtype


def test_unknown_variant(built: Workspace) -> None:
    with pytest.raises(ConfigError, match="no variant 'gptk'") as caught:
        plan(built, "gptk")
    assert "bf16, gptq, fp8, kv, gptq-mixed" in caught.value.faults[0].mend


def test_unsupported_variant_is_not_started(built: Workspace) -> None:
    with pytest.raises(EnvError, match="KV cache cannot be simulated") as caught:
        plan(built, "kv", A100)
    assert "compute capability" in str(caught.value)
    assert caught.value.mend


def test_context_tokens(workspace: Workspace) -> None:
    variants = {"gptq": {"scheme": "gptq-w4a16", "serve": {"max_model_len": 512}}}
    config = small_config(workspace, variants=variants)
    assert (context_tokens(config, "gptq"), context_tokens(config, "bf16")) == (512, 2048)


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_a_changed_checkpoint_is_not_served(built: Workspace, file: str) -> None:
    path = built.checkpoint("gptq") / file
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(InvalidMeasurement, match=f"{file} is not the file that") as caught:
        plan(built, "gptq")
    assert caught.value.mend == "run `qpipe quantize gptq` again"


@pytest.mark.parametrize(
    ("file", "says"),
    [("tokenizer.json", "cannot be loaded"), ("generation_config.json", "temperature 0.5 for 1.0")],
)
@pytest.mark.parametrize("hardware", [AMX, AVX2])
def test_what_comes_with_the_weights_must_be_the_models(
    built: Workspace, file: str, says: str, hardware: Hardware
) -> None:
    (built.checkpoint("gptq") / file).write_text('{"temperature": 0.5}')
    with pytest.raises(InvalidMeasurement, match=f"gptq/{file} is not as in .*{says}") as caught:
        plan(built, "gptq", hardware)
    assert "`qpipe quantize gptq`" in str(caught.value.mend)
