"""``qpipe validate``: what can be known to be wrong before any work starts."""

from __future__ import annotations

from collections.abc import Iterator

from qpipe.config import BASELINE, LONG_CONTEXT, BusinessSuite, Config, PublicSuite, Release
from qpipe.errors import ConfigError, Fault
from qpipe.evalset import suite_faults
from qpipe.model import architecture
from qpipe.quantize import ready_faults
from qpipe.schemes import preflight, quantized_kv
from qpipe.sensitivity import source_faults
from qpipe.serving import context_tokens

__all__ = ["notes", "validate"]

RELEASE = "configs/release.yaml"


def validate(config: Config) -> None:
    """Check what a loaded release does not show yet.

    That is the mix, the held-out texts, the business rows and what these texts share, functions of
    suites, settings that do not fit each other, and the schemes and the ready-made checkpoints by
    path against the model where it is there already.

    Raises:
        ConfigError: with all faults of all files.
    """
    faults = [fault for name in config.release.sensitivity for fault in source_faults(config, name)]
    faults += [*_sections(config), *_model(config), *ready_faults(config), *_context(config)]

    business = {
        name: (config.suite_files[name], suite)
        for name, suite in config.suites.items()
        if isinstance(suite, BusinessSuite)
    }
    faults += [*suite_faults(config, business), *_readers(config)]
    if (config.workspace.model / "config.json").exists():
        try:
            shapes = architecture(config.workspace.model)
            preflight(config.made_schemes, shapes.linears, config.release.devices, shapes)
        except ConfigError as error:
            faults.extend(error.faults)
    if faults:
        raise ConfigError(faults)


def notes(config: Config) -> Iterator[str]:
    """What a sound release lacks all the same."""
    quantized = [name for name in config.release.names if _quantizes_kv(config, name)]
    if quantized and not _asks_long_context(config):
        names = ", ".join(f"'{name}'" for name in quantized)
        yield (
            f"no suite asks long-context questions, so the quantized KV cache of {names} cannot be"
            " judged and the verdict will be INCONCLUSIVE; see 'Long context' in the README"
        )


def _quantizes_kv(config: Config, name: str) -> bool:
    scheme, served = config.scheme_of(name), config.release.serve_of(name).kv_cache_dtype
    if served in (None, "auto"):
        served = scheme.arithmetic.kv if scheme else None
    return name != BASELINE and quantized_kv({"arithmetic": {"kv": served}}) is not None


def _asks_long_context(config: Config) -> bool:
    from qpipe.evaluation import load_business

    for name, suite in config.suites.items():
        if isinstance(suite, PublicSuite):
            if any(task.category == LONG_CONTEXT for task in suite.tasks.values()):
                return True
            continue
        rows = load_business(config.suite_files[name], suite, config.workspace.root)
        tags = (tag for group in rows.values() for row in group for tag in row.tags)
        if LONG_CONTEXT in rows or any(tag.startswith("tokens:") for tag in tags):
            return True
    return False


def _readers(config: Config) -> Iterator[Fault]:
    """Functions that read local rows of public sets."""
    from qpipe.evaluation import load_readers

    for name, suite in config.suites.items():
        if isinstance(suite, PublicSuite):
            try:
                load_readers(config.suite_files[name], suite, config.workspace.root)
            except ConfigError as error:
                yield from error.faults


def _sections(config: Config) -> Iterator[Fault]:
    """DVC reads sections as parameters and would stop at the first stage that lacks one."""
    root, given = config.workspace.root, config.release.model_fields_set
    for name in Release.model_fields if (root / "dvc.yaml").exists() else ():
        if name not in given:
            yield Fault(RELEASE, name, "dvc.yaml reads this section", f"add `{name}: {{}}`")


def _model(config: Config) -> Iterator[Fault]:
    kind, _, where = config.release.model.source.partition(":")
    if kind == "path" and not (config.workspace.root / where).is_dir():
        yield Fault(RELEASE, "model.source", f"{where} is no folder", "correct the path")


def _context(config: Config) -> Iterator[Fault]:
    bench, fidelity = config.release.bench, config.release.fidelity
    load = bench.input_tokens + bench.output_tokens
    longest = max(fidelity.long_tokens, default=0)
    for key, what, tokens in (
        ("bench.input_tokens", f"input and output are {load} tokens", load),
        # The engine wants to answer with a token at least.
        ("fidelity.max_tokens", f"texts are {fidelity.max_tokens} tokens", fidelity.max_tokens + 1),
        ("fidelity.long_tokens", f"texts are {longest} tokens", longest + 1),
    ):
        short = [name for name in config.release.names if context_tokens(config, name) < tokens]
        if short:
            message = f"{what}, beyond the context of {', '.join(short)}"
            yield Fault(RELEASE, key, message, f"lower `{key}`, or raise `serve.max_model_len`")
