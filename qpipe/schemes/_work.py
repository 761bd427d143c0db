"""What a variant's quantization consists of, checked against the model."""

from __future__ import annotations

from dataclasses import dataclass

from qpipe.config import Config, Scheme, Step
from qpipe.errors import ConfigError, Fault
from qpipe.model import Architecture, Linear, architecture
from qpipe.records import read_json
from qpipe.schemes._preflight import preflight, quantized_modules
from qpipe.schemes._units import unit_modules

__all__ = ["Work", "needs_rows", "work_of"]


@dataclass(frozen=True)
class Work:
    """One scheme on one model."""

    variant: str
    scheme_name: str
    scheme: Scheme
    """With the restored modules on its ignore list."""
    architecture: Architecture
    base_hash: str
    """Of the unquantized checkpoint."""
    restored: list[str]
    """Modules that a fallback puts back to 16 bits."""
    ready_made: str | None
    """Where a checkpoint comes from that no step makes; ``scheme`` then has none."""
    rows: int
    """Calibration rows; 0 where no step looks at any."""
    tokens: int
    """Of each row."""

    @property
    def quantized(self) -> list[str]:
        """Names of the modules whose weights are quantized."""
        return [each.name for each in quantized_modules(self.scheme, self.architecture.linears)]

    @property
    def ignored(self) -> list[str]:
        """Names of the linear modules that the scheme itself leaves at 16 bits."""
        others = {*self.quantized, *self.restored}
        return [each.name for each in self.architecture.linears if each.name not in others]


def work_of(config: Config, variant: str) -> Work:
    """Resolve ``variant`` and check every scheme of the release against the model.

    Raises:
        ConfigError: no such variant, or a scheme does not fit the model.
        MissingInput: the model or the sensitivity record is not there.
    """
    release, workspace = config.release, config.workspace
    source = release.source_of(variant)
    if source is None:
        message = f"'{variant}' is not quantized"
        known = ", ".join(name for name in release.names if name != "bf16")
        raise ConfigError([Fault("configs/release.yaml", "variants", message, f"one of: {known}")])
    manifest = read_json(workspace.model / "manifest.json", "qpipe model")
    shapes = architecture(workspace.model)
    # All of them before the first: a night must not end at the fifth variant's typing error.
    preflight(config.made_schemes, shapes.linears, release.devices, shapes)
    scheme = config.schemes[source.scheme]
    done = quantized_modules(scheme, shapes.linears)
    left = [each.name for each in shapes.linears if each not in done]
    if scheme.backend == "autoawq" and (left or variant in release.fallback):
        where = f"configs/schemes/{source.scheme}.yaml"
        what = left[0] if left else "what a fallback restores"
        message = f"AutoAWQ cannot leave {what} at 16 bits"
        mend = "quantize by llm-compressor: `backend: llm-compressor`, steps awq and rtn"
        raise ConfigError([Fault(where, "ignore", message, mend)])
    if source.checkpoint is not None:
        scheme = scheme.model_copy(update={"steps": []})
    restored = _restored(config, variant, shapes.linears)
    scheme = scheme.model_copy(update={"ignore": [*scheme.ignore, *restored]})
    use = release.calibration
    rows = min(scheme.calibration_samples or use.samples, use.samples)
    return Work(
        variant=variant,
        scheme_name=source.scheme,
        scheme=scheme,
        architecture=shapes,
        base_hash=manifest["checkpoint_hash"],
        restored=restored,
        ready_made=source.checkpoint,
        rows=rows if any(needs_rows(step, scheme) for step in scheme.steps) else 0,
        tokens=use.tokens,
    )


def needs_rows(step: Step, scheme: Scheme) -> bool:
    """Whether a step runs the model: rounding does for static scales only."""
    scheme = scheme.saved()
    static = scheme.activations is not None and scheme.activations.dynamic is not True
    return scheme.calibrated and (step.method != "rtn" or static or scheme.kv_cache is not None)


def _restored(config: Config, variant: str, modules: tuple[Linear, ...]) -> list[str]:
    """Modules a fallback puts back to 16 bits: the worst units of its source."""
    fallback = config.release.fallback.get(variant)
    if fallback is None:
        return []
    record = read_json(
        config.workspace.sensitivity(fallback.source), f"qpipe sensitivity {fallback.source}"
    )
    worst = [row["unit"] for row in record["units"][: fallback.restore_units]]
    return unit_modules([module.name for module in modules], worst)
