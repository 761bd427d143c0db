"""``configs/release.yaml``: one model release. DVC reads the same file as its parameters."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from qpipe.config._base import Model, Name

__all__ = [
    "BASELINE",
    "Bench",
    "CalibrationUse",
    "Evaluation",
    "Fallback",
    "Fidelity",
    "Gate",
    "ModelSource",
    "Release",
    "Sensitivity",
    "Serve",
    "Stability",
    "Tracking",
    "Variant",
]

BASELINE = "bf16"
"""The unquantized variant, which all others are compared with."""

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
# numpy takes 32 bits without sign; levels of the bench count on from theirs.
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class ModelSource(Model):
    """Where the unquantized model comes from."""

    source: str
    """``package:DIST==VERSION/FILE.gguf``, ``hub:ORG/NAME@REVISION`` or ``path:FOLDER``."""
    trust_remote_code: bool = False
    """Run Python code that the model's repository carries."""

    @field_validator("source")
    @classmethod
    def _known_kind(cls, value: str) -> str:
        kind, _, rest = value.partition(":")
        if kind not in ("package", "hub", "path") or not rest:
            raise ValueError("a source is package:DIST==VERSION/FILE, hub:ORG/NAME@REV or path:DIR")
        if kind == "package" and ("==" not in rest or "/" not in rest):
            raise ValueError("a package source pins version and file: package:DIST==VERSION/FILE")
        return _check_revision(value)


def _check_revision(source: str) -> str:
    kind, _, rest = source.partition(":")
    if kind == "hub" and not re.fullmatch(r"[\w.-]+(/[\w.-]+)?@[\w./-]+", rest):
        raise ValueError("a hub source names its revision: hub:ORG/NAME@REVISION")
    return source


def _check_checkpoint(source: str) -> str:
    kind, _, rest = source.partition(":")
    if kind not in ("hub", "path") or not rest:
        raise ValueError("a checkpoint is hub:ORG/NAME@REVISION or path:FOLDER")
    return _check_revision(source)


class CalibrationUse(Model):
    """The calibration set and its size."""

    mix: str = "calib/mix.yaml"
    """Path of the mix file."""
    samples: Positive = 128
    """Rows."""
    tokens: Positive = 512
    """Exact length of each row in tokens."""
    seed: Seed = 0
    """Seed of the draw."""


# Engine flags that qpipe sets from elsewhere → where; `None`: qpipe alone decides.
SET_ELSEWHERE = {
    "config": None,
    "enable_prefix_caching": "serve.prefix_caching",
    "host": None,
    "max_logprobs": None,
    "model": "model.source",
    "served_model_name": None,
    "tokenizer": None,
    "trust_remote_code": "model.trust_remote_code",
    "worker_extension_cls": None,
}


def _check_flag(flag: str) -> str:
    """Flags that shadow a setting would make what is recorded untrue."""
    elsewhere = {**{field: f"serve.{field}" for field in Serve.model_fields}, **SET_ELSEWHERE}
    # As the engine's parser reads it: either dash, `--no-` for false, `=`, and abbreviations.
    asked = flag.partition("=")[0].replace("_", "-").strip("-").removeprefix("no-")
    for name, place in elsewhere.items():
        if name.replace("_", "-").startswith(asked):
            mend = f"set `{place}` instead" if place else "remove it"
            raise PydanticCustomError("shadows", "qpipe sets this flag itself", {"mend": mend})
    return flag


Flag = Annotated[str, AfterValidator(_check_flag)]


class Serve(Model):
    """How the engine is started. A variant's entries override the release's."""

    dtype: Literal["bfloat16", "float16", "auto"] | None = None
    """Type of unquantized weights and activations; ``auto`` or absent: the machine's own."""
    max_model_len: Positive | None = None
    """Context window in tokens."""
    max_num_seqs: Positive | None = None
    """Most sequences in one batch."""
    kv_cache_dtype: str | None = None
    """KV cache type as the engine names it (``auto``, ``fp8``)."""
    kv_cache_gib: float | None = Field(default=None, gt=0)
    """CPU engine: memory given to the KV cache, GiB."""
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    """CUDA engine: share of device memory the engine may take."""
    tensor_parallel_size: Positive | None = None
    """Devices one replica spans."""
    enforce_eager: bool | None = None
    """No graph capture and no compilation: starts faster, may run slower."""
    prefix_caching: bool | None = None
    """Reuse KV blocks of equal prefixes."""
    start_timeout_s: Positive | None = None
    """Limit for the engine to become healthy, seconds."""
    port: Annotated[int, Field(ge=1024, le=65535)] | None = None
    """Fixed loopback port; a free one is chosen when absent."""
    args: dict[Flag, str | int | float | bool] = Field(default_factory=dict)
    """More engine flags, without the leading dashes; ``true`` gives ``--KEY``, ``false``
    ``--no-KEY`` (nothing where KEY starts with ``no-`` or ``disable-``). Flags that have a
    setting of their own are refused."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the engine."""

    def over(self, base: Serve) -> Serve:
        """These settings on top of ``base``."""
        mine = self.model_dump(exclude_none=True)
        merged: dict[str, Any] = {**base.model_dump(exclude_none=True), **mine}
        merged["args"] = {**base.args, **self.args}
        merged["env"] = {**base.env, **self.env}
        return Serve.model_validate(merged)


class Baseline(Model):
    """The unquantized model as served."""

    serve: Serve = Serve()
    """Engine settings."""


class Variant(Model):
    """What is deployed: a checkpoint, made by a scheme or ready-made, and how it is served."""

    scheme: Name
    """A file ``configs/schemes/NAME.yaml``."""
    checkpoint: Annotated[str, AfterValidator(_check_checkpoint)] | None = None
    """``hub:ORG/NAME@REVISION`` or ``path:FOLDER`` of a checkpoint that is quantized already, in
    the format of compressed-tensors, AutoAWQ or GPTQ, or FP8: it is judged, not made. ``scheme``
    then says what must run: its bits, formats and granularity must be the checkpoint's."""
    trained: bool = False
    """``checkpoint`` comes from quantization-aware training, which moved its weights: they may be
    further from the model's than rounding takes them."""
    serve: Serve = Serve()
    """Engine settings."""
    simulate: bool = False
    """Imitate the scheme though the engine has a kernel for it: how far is one from the other?"""

    @field_validator("trained")
    @classmethod
    def _of_a_checkpoint(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("checkpoint", "") is None:
            message, mend = "qpipe makes this variant and trains nothing", "remove it"
            raise PydanticCustomError("untrained", message, {"mend": mend})
        return value


class Sensitivity(Model):
    """Ranks the fused groups of one variant by the KL each costs."""

    samples: Positive = 8
    """Calibration rows in the draw."""
    tokens: Positive = 128
    """Tokens of each row."""


class Fallback(Model):
    """A source variant with its worst groups put back to 16 bits."""

    source: Name
    """A variant that has an entry under ``sensitivity``."""
    restore_units: Positive
    """How many fused groups go back to 16 bits."""
    serve: Serve = Serve()
    """Engine settings on top of the source's."""


class Fidelity(Model):
    """KL to the baseline on held-out text, on the served model."""

    texts: str = "evalsets/heldout"
    """Folder of ``CATEGORY.txt`` files, paragraphs separated by empty lines."""
    top_k: Annotated[int, Field(gt=0, le=1024)] = 64
    """Prompt logprobs asked a position; the rest of the distribution is one bucket."""
    max_tokens: Positive = 256
    """Longest text in tokens; longer ones are cut."""
    max_texts: Positive = 8
    """Texts a category."""
    long_tokens: list[Positive] = Field(default_factory=list)
    """Lengths of the texts of category ``long-context``: all held-out paragraphs in a row, of which
    the last ``max_tokens`` count. None are measured when empty."""
    long_texts: Positive = 2
    """Texts a length."""
    answers: int = Field(default=4, ge=0)
    """Texts a category whose second half the baseline answers greedily instead."""
    answer_tokens: Positive = 64
    """Longest answer in tokens."""
    concurrency: Positive = 4
    """Requests in flight."""


class Evaluation(Model):
    """How suites are run."""

    suites: list[Name] = Field(min_length=1)
    """Suite files ``evalsets/{business,public}/NAME.yaml``."""
    concurrency: Positive = 16
    """Requests in flight."""
    limit: Positive | None = None
    """At most this many questions a task."""
    noise_floor: bool = True
    """Ask the baseline everything twice: differences are shown against what differs then."""
    data_dir: str | None = None
    """Folder with local copies of public sets, read instead of the hub."""
    seed: Seed = 0
    """Seed of few-shot draws."""


class Stability(Model):
    """Several sampled answers a question."""

    questions: int = Field(default=0, ge=0)
    """Questions a category; 0: stability is not measured."""
    samples: int = Field(default=4, ge=2)
    """Answers a question."""
    temperature: float = Field(default=0.7, gt=0)
    """Of the sampling."""


class Bench(Model):
    """The load of the speed measurement."""

    input_tokens: Positive = 128
    """Prompt length."""
    output_tokens: int = Field(default=32, ge=2)
    """Output length, forced; TPOT needs a second token."""
    concurrency: list[Positive] = Field(default_factory=lambda: [1, 4, 16], min_length=1)
    """Levels, each measured once."""
    prompts_per_level: Positive = 16
    """Requests a level, at least; a level never has fewer than twice its concurrency."""
    warmup_prompts: Positive = 4
    """Requests before the first level, excluded."""
    seed: Seed = 1000
    """Each level draws prompts from its own seed, the same for every variant."""


class Gate(Model):
    """The policy. A limit that is absent is not judged."""

    kl_mean_max: float | None = Field(default=None, gt=0)
    """Highest mean KL to the baseline, nats a token, over all held-out text."""
    kl_category_max: float | None = Field(default=None, gt=0)
    """Highest mean KL in any one category."""
    top1_agreement_min: Share | None = None
    """Lowest share of positions with the baseline's top token."""
    accuracy_margin: Share | None = None
    """Non-inferiority margin on each category's score; where that is a log-likelihood, in nats, of
    which 0.05 are about 5% of perplexity."""
    accuracy_decides: bool = True
    """False: accuracy is shown and the verdict rests on KL, as small draws decide nothing."""
    truncated_share_max: Share | None = None
    """Most answers cut by length beyond the baseline's share."""
    certify_simulated: bool = False
    """Let results of simulated arithmetic become GO."""


class Tracking(Model):
    """MLflow."""

    experiment: str = "qpipe"
    """Experiment name."""
    uri: str | None = None
    """Tracking server; ``mlflow/`` of the workspace (SQLite and a folder) when absent."""


class Release(Model):
    """One release: the model, its variants, and how they are judged."""

    name: Name
    """Name of the release in MLflow and in the report."""
    model: ModelSource
    calibration: CalibrationUse = CalibrationUse()
    serve: Serve = Serve()
    """Engine settings of every variant."""
    baseline: Baseline = Baseline()
    """The variant ``bf16``."""
    variants: dict[Name, Variant] = Field(min_length=1)
    sensitivity: dict[Name, Sensitivity] = Field(default_factory=dict)
    """By source variant."""
    fallback: dict[Name, Fallback] = Field(default_factory=dict)
    fidelity: Fidelity = Fidelity()
    evaluation: Evaluation
    stability: Stability = Stability()
    bench: Bench = Bench()
    gate: Gate
    tracking: Tracking = Tracking()

    @property
    def names(self) -> list[str]:
        """All variants in the order shown: baseline, variants, fallbacks."""
        return [BASELINE, *self.variants, *self.fallback]

    def source_of(self, name: str) -> Variant | None:
        """The variant whose scheme made this checkpoint; ``None`` for the baseline."""
        if name in self.fallback:
            return self.variants[self.fallback[name].source]
        return self.variants.get(name)

    def made_by(self, scheme: str) -> list[str]:
        """The variants whose checkpoints this scheme makes; others bring theirs."""
        made = [name for name, entry in self.variants.items() if entry.checkpoint is None]
        return [name for name in made if self.variants[name].scheme == scheme]

    @property
    def devices(self) -> dict[str, int]:
        """Most devices that a scheme's variants are spread over, by scheme."""
        found: dict[str, int] = {}
        for name in self.names:
            if (source := self.source_of(name)) is not None:
                spread = self.serve_of(name).tensor_parallel_size or 1
                found[source.scheme] = max(found.get(source.scheme, 1), spread)
        return found

    def serve_of(self, name: str) -> Serve:
        """Engine settings of one variant as the release file has them."""
        if name == BASELINE:
            return self.baseline.serve.over(self.serve)
        if name in self.fallback:
            fallback = self.fallback[name]
            return fallback.serve.over(self.serve_of(fallback.source))
        return self.variants[name].serve.over(self.serve)
