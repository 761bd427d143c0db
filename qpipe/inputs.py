"""``qpipe inputs``: fingerprints of what ``dvc.yaml`` cannot name.

DVC watches files by fixed paths. The machine, and the folders that a release file may name anywhere
(a model, a calibration mix, held-out texts, local copies of public sets), reach it through these
records: the stage always runs, takes a second, and what depends on it runs only when they change.
So does the tool that a variant's scheme asks for: a stage a variant has one list of files for all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from qpipe.calibration import load_mix
from qpipe.config import BusinessSuite, Config, PublicSuite, Variant
from qpipe.envs import worker_hash
from qpipe.hardware import detect, identity
from qpipe.quantize import TOOLS
from qpipe.records import hash_file, write_json
from qpipe.serving import shortest_context

__all__ = ["note_inputs"]


def note_inputs(config: Config) -> None:
    """Write ``out/inputs/{machine,model,calibration,evaluation}.json`` and a record a checkpoint.

    Raises:
        ConfigError: the calibration mix has faults.
        EnvError: the machine's GPUs cannot be read.
    """
    root = config.workspace.root
    found = {
        "machine": identity(detect().record()),
        "model": _folder(config, config.release.model.source),
        "calibration": _contents(_calibration_files(config), root),
        # The window of whole texts is one for all variants: another context of one changes it.
        "evaluation": {
            "window": shortest_context(config),
            **_contents(_evaluation_files(config), root),
        },
    }
    for name, variant in config.release.variants.items():
        found[f"checkpoints/{name}"] = {
            "source": variant.checkpoint,
            "trained": variant.trained,
            **_folder(config, variant.checkpoint or ""),
            "tool": _tool(config, variant),
        }
    for name, record in found.items():
        write_json(config.workspace.out / "inputs" / f"{name}.json", record)


def _tool(config: Config, variant: Variant) -> dict[str, Any] | None:
    """What makes the checkpoint: another tool's worker or environment must not make it again."""
    if variant.checkpoint is not None:
        return None
    tool = TOOLS[config.schemes[variant.scheme].backend]
    root = config.workspace.root
    requirements = (root / "configs" / "envs").glob(f"{tool}*.txt")
    return {"worker": worker_hash(tool), **_contents(requirements, root)}


def _folder(config: Config, source: str) -> dict[str, Any]:
    """Sizes and times: hashing gigabytes at every run costs more than a needless copy."""
    kind, _, where = source.partition(":")
    if kind != "path":
        return {"files": {}}
    folder = config.workspace.root / where
    files = {path.name: path.stat() for path in sorted(folder.glob("*")) if path.is_file()}
    return {"files": {name: [stat.st_size, stat.st_mtime_ns] for name, stat in files.items()}}


def _calibration_files(config: Config) -> Iterator[Path]:
    root = config.workspace.root
    mix = root / config.release.calibration.mix
    yield mix
    for source in load_mix(mix, root).sources.values():
        yield mix.parent / source.file


def _evaluation_files(config: Config) -> Iterator[Path]:
    root, release = config.workspace.root, config.release
    yield from (root / release.fidelity.texts).glob("*.txt")
    for name, suite in config.suites.items():
        folder = config.suite_files[name].parent
        if isinstance(suite, BusinessSuite):
            yield from (folder / file for file in suite.files.values())
            functions = list(suite.scorers.values())
        else:
            functions = [task.rows for task in suite.tasks.values() if task.rows]
        yield from (folder / place.partition(":")[0] for place in functions)
    if release.evaluation.data_dir is None:
        return
    sets = root / release.evaluation.data_dir
    for suite in config.suites.values():
        if isinstance(suite, PublicSuite):
            for task in suite.tasks.values():
                files = task.data_files or {}
                for file in [files] if isinstance(files, str) else files.values():
                    # A group reads a file a task: which they are, lm-eval knows.
                    many = "{name}" in file
                    yield from sets.glob(file.replace("{name}", "*")) if many else [sets / file]


def _contents(paths: Iterable[Path], root: Path) -> dict[str, Any]:
    """Hash by path from ``root``, so that a moved workspace is the same.

    A missing file is the reading stage's error to tell.
    """
    files = {os.path.relpath(path, root): path for path in paths if path.is_file()}
    return {"files": {name: hash_file(path) for name, path in sorted(files.items())}}
