"""What will be started for a variant: checkpoint, flags, environment, expected arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qpipe.config import Arithmetic, Config, Scheme, Serve
from qpipe.errors import ConfigError, EnvError, Fault
from qpipe.hardware import Hardware
from qpipe.model import architecture, require_companions, require_unchanged
from qpipe.paths import PACKAGE
from qpipe.records import read_json
from qpipe.schemes import WIDE, Mode, kv_format, units_of, variant_mode
from qpipe.serving._simulated import simulated_checkpoint

__all__ = ["Plan", "context_tokens", "plan_serving", "serve_settings", "shortest_context"]

MAX_MODEL_LEN = 2048
DEFAULTS = Serve(max_model_len=MAX_MODEL_LEN, max_num_seqs=64, start_timeout_s=300)
CPU_DEFAULTS = Serve(kv_cache_gib=2, enforce_eager=True)
# Prompt logprobs beyond this many a position are refused by the server.
MAX_LOGPROBS = 1024


@dataclass(frozen=True)
class Plan:
    """Everything that decides what a server computes."""

    variant: str
    mode: Mode
    checkpoint: Path
    checkpoint_hash: str
    tokenizer: Path
    serve: Serve
    env: dict[str, str]
    scheme_hash: str | None = None
    """Of the scheme that the checkpoint was built with."""
    kernels: tuple[str, ...] = ()
    simulated: dict[str, int] = field(default_factory=dict)
    """Parts (``kv``, ``activations``) that the engine is made to round, and in how many places."""
    trust_remote_code: bool = False
    arguments: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", _arguments(self))


def plan_serving(
    config: Config, variant: str, hardware: Hardware, progress: Callable[[str], None]
) -> Plan:
    """Decide how ``variant`` is served on this machine; dequantizes it first if it must.

    Raises:
        ConfigError: no such variant, or a type that its kernel does not round activations in.
        EnvError: this machine's engine can neither run nor simulate it.
        MissingInput: its checkpoint was not built.
        InvalidMeasurement: its checkpoint was changed after it was built, or has another tokenizer,
            chat template or generation config than the model.
    """
    workspace = config.workspace
    scheme = config.scheme_of(variant)
    mode = variant_mode(config, variant, hardware)
    if mode.mode == "unsupported":
        raise EnvError(
            f"'{variant}' cannot be served here: {mode.reason}",
            mend="take a machine that `native` in the scheme's file asks for, or another variant",
        )
    folder = workspace.checkpoint(variant)
    made_by = "qpipe model" if scheme is None else f"qpipe quantize {variant}"
    manifest = read_json(folder / "manifest.json", made_by)
    require_unchanged(folder, manifest, made_by)
    trust = config.release.model.trust_remote_code
    require_companions(folder, workspace.model, made_by, trust)
    serve = serve_settings(config, variant, hardware)
    mode = _as_served(mode, serve, scheme, hardware)
    _require_kernel_type(config, variant, mode, serve)
    if scheme is not None and mode.mode == "native":
        # The pins win, or the declared arithmetic would not be what ran; `serve` is recorded.
        pins: dict[str, Any] = {"env": {**serve.env, **scheme.env}}
        if scheme.kv_cache_dtype is not None:
            pins["kv_cache_dtype"] = scheme.kv_cache_dtype
        serve = serve.model_copy(update=pins)
    env = dict(serve.env)
    if hardware.device == "cpu" and serve.kv_cache_gib:
        env.setdefault("VLLM_CPU_KVCACHE_SPACE", f"{serve.kv_cache_gib:g}")
    extra: dict[str, str | int | float | bool] = {}
    if hardware.device == "cpu" and (serve.tensor_parallel_size or 1) == 1:
        # The worker inside the engine's process: one import of the engine less at start, and all
        # cores compute (by default one of them is kept for the front end, half of a small machine).
        extra["distributed-executor-backend"] = "uni"
        env.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        env.setdefault("OMP_NUM_THREADS", str(hardware.cores))
    kernels: tuple[str, ...] = ()
    simulated: dict[str, int] = {}
    if scheme is not None and mode.mode == "native":
        kernels = tuple(scheme.kernels) if hardware.device == "cpu" else ()
    if mode.mode == "simulated":
        folder = simulated_checkpoint(config, variant, progress)
        if scheme is not None and scheme.activations:
            simulated["activations"] = len(units_of(manifest["modules"]))
        if scheme is not None and scheme.kv_cache:
            simulated["kv"] = architecture(workspace.model).layers
            env["QPIPE_KV_DTYPE"] = scheme.kv_cache_dtype or "fp8"
            if scheme.kv_cache_dtype is None:
                env["QPIPE_KV_SCALES"] = str(folder / "kv_scales.json")
        if simulated:
            env["PYTHONPATH"] = str(PACKAGE / "workers")
    return Plan(
        variant=variant,
        mode=mode,
        checkpoint=folder,
        checkpoint_hash=manifest["checkpoint_hash"],
        scheme_hash=manifest.get("scheme_hash"),
        tokenizer=workspace.model,
        serve=serve.model_copy(update={"args": {**extra, **serve.args}}),
        env=env,
        kernels=kernels,
        simulated=simulated,
        trust_remote_code=trust,
    )


def serve_settings(config: Config, variant: str, hardware: Hardware) -> Serve:
    """The engine's settings for ``variant`` here: the release's over qpipe's own."""
    base = DEFAULTS if hardware.device == "cuda" else CPU_DEFAULTS.over(DEFAULTS)
    serve = config.release.serve_of(variant).over(base)
    if serve.dtype in (None, "auto"):
        serve = serve.model_copy(update={"dtype": hardware.native_dtype})
    return serve


def context_tokens(config: Config, variant: str) -> int:
    """The context window that ``variant`` is served with."""
    return config.release.serve_of(variant).max_model_len or MAX_MODEL_LEN


def shortest_context(config: Config) -> int:
    """The context window that every variant has."""
    return min(context_tokens(config, name) for name in config.release.names)


def _as_served(mode: Mode, serve: Serve, scheme: Scheme | None, hardware: Hardware) -> Mode:
    """The mode with the types that ``serve`` sets in place of the machine's."""
    runs = mode.arithmetic.model_dump()
    wide = WIDE.get(serve.dtype or "")
    if wide is not None:
        runs = {key: wide if value in WIDE.values() else value for key, value in runs.items()}
    pinned = scheme is not None and scheme.kv_cache_dtype is not None
    if serve.kv_cache_dtype not in (None, "auto") and not pinned:
        runs["kv"] = kv_format(serve.kv_cache_dtype, hardware)
    return replace(mode, arithmetic=Arithmetic.model_validate(runs))


def _require_kernel_type(config: Config, variant: str, mode: Mode, serve: Serve) -> None:
    """Check that a kernel which rounds activations by itself is asked for the type it does so in.

    vLLM 0.32's W4A8 kernel takes bfloat16; in another type the same kernel's W4A16 path runs.

    Raises:
        ConfigError: it is asked for another.
    """
    scheme = config.scheme_of(variant)
    if scheme is None or mode.mode != "native" or not scheme.engine_activations:
        return
    if serve.dtype != "bfloat16":
        message = f"'{variant}' would run with 16-bit activations: its kernel takes bfloat16 alone"
        mend = "leave `dtype` out for it, or say `simulate: true`"
        raise ConfigError([Fault("configs/release.yaml", "serve.dtype", message, mend)])


def _arguments(plan: Plan) -> list[str]:
    serve = plan.serve
    pairs: dict[str, str | int | float | bool | None] = {
        "model": str(plan.checkpoint),
        # A quantizer may write them anew, and a twin has none: serve with the model's own.
        "tokenizer": str(plan.tokenizer),
        "generation-config": str(plan.tokenizer),
        "served-model-name": plan.variant,
        "dtype": serve.dtype,
        "max-model-len": serve.max_model_len,
        "max-num-seqs": serve.max_num_seqs,
        "kv-cache-dtype": serve.kv_cache_dtype,
        "gpu-memory-utilization": serve.gpu_memory_utilization,
        "tensor-parallel-size": serve.tensor_parallel_size,
        "enforce-eager": serve.enforce_eager or None,
        "max-logprobs": MAX_LOGPROBS,
        "worker-extension-cls": "simulation.Extension" if plan.simulated else None,
        "trust-remote-code": plan.trust_remote_code or None,
        "enable-prefix-caching": serve.prefix_caching,
        **serve.args,
        "enable-scale-out": True,  # its token-in endpoint gives logprobs without spelling them
        "enable-prompt-tokens-details": True,  # each answer says what came from the prefix cache
    }
    arguments: list[str] = []
    for key, value in pairs.items():
        if value is None or (value is False and key.startswith(("disable-", "no-"))):
            continue
        if isinstance(value, bool):
            arguments.append(f"--{key}" if value else f"--no-{key}")
        else:
            arguments += [f"--{key}", str(value)]
    return arguments
