"""A ready-made checkpoint: somebody else quantized it, and it is judged as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qpipe.config import Config, Scheme, load_schemes
from qpipe.envs import run_worker
from qpipe.errors import ConfigError, Fault
from qpipe.model import adopt_companions, architecture, fetch, require_checkpoint
from qpipe.schemes import (
    QuantizationConfig,
    Work,
    as_declared,
    declared_in,
    disagreement,
    preflight_checkpoint,
)

__all__ = ["bring_checkpoint", "check_checkpoint", "ready_faults"]


class _Quantized:
    """Asks that a checkpoint is the model's, and what the variant's scheme says."""

    def __init__(self, config: Config, variant: str) -> None:
        self.key = f"variants.{variant}.checkpoint"
        self._model = config.workspace.model
        self._architecture = architecture(config.workspace.model)
        self._scheme = config.schemes[config.release.variants[variant].scheme]
        self._others = load_schemes(config.workspace)
        self._devices = config.release.serve_of(variant).tensor_parallel_size or 1

    def config(self, folder: Path) -> None:
        if not (folder / "config.json").exists():
            return  # `whole` says so
        try:
            found = declared_in(folder)
        except ValueError as error:
            mend = "take a checkpoint of compressed-tensors, AutoAWQ, GPTQ or FP8"
            raise ConfigError([Fault(str(folder), self.key, str(error), mend)]) from error
        problem = disagreement(found, self._scheme)
        if problem is not None:
            self._refuse(folder, [(problem, self._mend(found))])
        self._refuse(folder, _other_settings(folder, self._model))
        misfits = preflight_checkpoint(found, self._scheme, self._architecture, self._devices)
        self._refuse(folder, misfits)

    def whole(self, folder: Path) -> None:
        require_checkpoint(folder, self.key, quantized=True)

    def _refuse(self, folder: Path, found: Iterable[tuple[str, str]]) -> None:
        faults = [Fault(str(folder), self.key, message, mend) for message, mend in found]
        if faults:
            raise ConfigError(faults)

    def _mend(self, found: QuantizationConfig) -> str:
        fitting = [
            name for name, scheme in self._others.items() if disagreement(found, scheme) is None
        ]
        if fitting:
            return f"name a scheme that is so: {', '.join(fitting)}"
        return "write a scheme file that says so, and name it"


def ready_faults(config: Config) -> Iterator[Fault]:
    """Of checkpoints by path: files that are there already can be known to be wrong.

    Those of the hub are looked at when they are fetched. Without the model, only folders are.
    """
    workspace = config.workspace
    for name, variant in config.release.variants.items():
        kind, _, where = (variant.checkpoint or "").partition(":")
        if kind != "path":
            continue
        folder = (workspace.root / where).resolve()
        if not folder.is_dir():
            key = f"variants.{name}.checkpoint"
            yield Fault("configs/release.yaml", key, f"{where} is no folder", "correct the path")
        elif (workspace.model / "config.json").exists():
            wanted = _Quantized(config, name)
            for look in (wanted.config, wanted.whole):
                try:
                    look(folder)
                except ConfigError as error:
                    yield from error.faults


def bring_checkpoint(
    config: Config, work: Work, staged: Path, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Fetch ``work.ready_made`` into ``staged`` and check it; returns entries of its manifest.

    Raises:
        ConfigError: it is not what the scheme says, another model's, not whole, or pickled; or the
            engine would refuse it.
        EnvError: it cannot be fetched, or its tensors are unsound.
        InvalidMeasurement: its tokenizer is not the model's.
    """
    workspace, trust = config.workspace, config.release.model.trust_remote_code
    variant = work.variant
    assert work.ready_made is not None
    wanted = _Quantized(config, variant)
    origin = fetch(work.ready_made, staged, workspace, trust, progress, wanted)
    actual = as_declared(declared_in(staged), config.schemes[work.scheme_name])
    replaced = adopt_companions(staged, workspace.model, trust)
    if replaced:
        progress(
            f"warning: {', '.join(replaced)} differed: the model's is taken; what is judged, and is"
            f" to be shipped, is {workspace.checkpoint(variant)}, not the original"
        )
    trained = config.release.variants[variant].trained
    mend = "fetch it again, whole, or take another checkpoint of this model"
    far_mend = "take another checkpoint of this model"
    if not trained:
        far_mend += "; if it comes from quantization-aware training, say `trained: true` beside it"
    checked = check_checkpoint(
        config, variant, actual, staged, progress, trained=trained, mend=mend, far_mend=far_mend
    )
    return {
        "ready_made": {"source": work.ready_made, **asdict(origin), "replaced": replaced},
        "scheme_spec": actual.model_dump(),
        "modules": checked.pop("modules"),
        "quantize": checked,
    }


# What decides numbers beside the weights and rotary embeddings.
DECIDES = (
    *("rms_norm_eps", "sliding_window", "tie_word_embeddings"),
    *("hidden_act", "head_dim", "num_attention_heads", "num_key_value_heads", "hidden_size"),
    *("intermediate_size", "num_hidden_layers", "vocab_size"),
)
# transformers reads these older names so, and saves the newer ones.
ROPE_TYPES = {"mrope": "default", "su": "longrope"}
WHOLE = "full_attention"
"""The kind of attention whose rotary embedding older files tell at the top."""


def _other_settings(folder: Path, model: Path) -> Iterator[tuple[str, str]]:
    """What makes a checkpoint compute something else than the model, but for its weights."""
    mine, base = (_decides(each) for each in (folder, model))
    odd = [name for name in mine if name in base and mine[name] != base[name]]
    if odd:
        said = ", ".join(f"{name} {mine[name]} for {base[name]}" for name in odd)
        mend = "take a checkpoint of this model, or the model that it was made from"
        yield f"it is another model: {said}", mend


def _decides(folder: Path) -> dict[str, Any]:
    """Settings by name; what one file leaves to defaults is no difference."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= config.get("text_config") or {}
    known = {name: config[name] for name in DECIDES if config.get(name) is not None}
    for kind, rope in _ropes(config).items():
        of = "" if kind == WHOLE else f" of {kind}"
        known |= {f"{name}{of}": value for name, value in rope.items()}
    return known


def _ropes(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings of rotary embeddings by kind of attention.

    Older files tell them at the top; newer ones in a section, or in one a kind.
    """
    section = config.get("rope_parameters")
    if not section:
        at_top = ("rope_theta", "partial_rotary_factor")
        section = {name: config[name] for name in at_top if name in config}
        if "rope_scaling" in config:
            scaling = config["rope_scaling"] or {}
            section |= {"rope_type": scaling.get("type", "default"), **scaling}
    by_kind = {kind: each for kind, each in section.items() if isinstance(each, dict)}
    ropes = by_kind or {WHOLE: section}
    if "rope_local_base_freq" in config:  # of Gemma 3's windows
        ropes["sliding_attention"] = {"rope_theta": config["rope_local_base_freq"]}
    return {kind: _rope(rope) for kind, rope in ropes.items()}


def _rope(section: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in section.items() if value is not None}
    found.pop("type", None)  # an older name of `rope_type`
    if "rope_type" in found:
        found["rope_type"] = ROPE_TYPES.get(found["rope_type"], found["rope_type"])
    if found.get("rope_type") != "default":
        return found
    read = ("rope_theta", "partial_rotary_factor", "rope_type")
    return {name: found[name] for name in read if name in found}


def check_checkpoint(
    config: Config,
    variant: str,
    scheme: Scheme,
    folder: Path,
    progress: Callable[[str], None],
    *,
    trained: bool = False,
    mend: str | None = None,
    far_mend: str | None = None,
    expected_bytes: int | None = None,
) -> dict[str, Any]:
    """What there is to tell of a checkpoint that llm-compressor did not make, with its `modules`.

    ``trained`` weights may be far from the model's; ``far_mend`` is of those that are too far,
    ``mend`` of all other faults. Where absent, the worker has its own for what qpipe made.
    ``expected_bytes`` is left out of ready-made ones, whose formats and unquantized types differ.

    Raises:
        EnvError: its tensors are unsound, or it no longer speaks.
    """
    request = {
        "output": str(folder),
        "model": str(config.workspace.model),
        "scheme": scheme.saved().model_dump(),
        "trained": trained,
        "mend": mend,
        "far_mend": far_mend,
        "expected_bytes": expected_bytes,
        "trust_remote_code": config.release.model.trust_remote_code,
    }
    return run_worker("quantize", "check", request, config.workspace, variant, progress)
