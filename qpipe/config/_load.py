"""Reads every file a release names and reports all faults at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from qpipe.config._release import BASELINE, Release
from qpipe.config._scheme import Scheme
from qpipe.config._suite import Suite
from qpipe.errors import ConfigError, Fault
from qpipe.paths import Workspace

__all__ = ["Config", "load_config", "load_schemes", "load_yaml"]

T = TypeVar("T")


class _Loader(yaml.SafeLoader):
    """YAML in which a key stands once: by default the last one wins in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key.value}' stands twice", key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


@dataclass(frozen=True)
class Config:
    """A release and the scheme and suite files it names."""

    workspace: Workspace
    release: Release
    schemes: Mapping[str, Scheme]
    suites: Mapping[str, Suite]
    suite_files: Mapping[str, Path]

    @property
    def made_schemes(self) -> dict[str, Scheme]:
        """The schemes by which checkpoints are made; ready-made ones only follow theirs."""
        return {name: each for name, each in self.schemes.items() if self.release.made_by(name)}

    def scheme_of(self, variant: str) -> Scheme | None:
        """The scheme that made a variant's checkpoint; ``None`` for the baseline.

        Raises:
            ConfigError: the release has no such variant.
        """
        if variant not in self.release.names:
            message, known = f"there is no variant '{variant}'", ", ".join(self.release.names)
            where = _relative(self.workspace.release, self.workspace.root)
            raise ConfigError([Fault(where, "variants", message, f"one of: {known}")])
        source = self.release.source_of(variant)
        return None if source is None else self.schemes[source.scheme]


def load_config(workspace: Workspace) -> Config:
    """Read ``configs/release.yaml`` and all it names.

    Raises:
        ConfigError: with every fault of every file.
    """
    faults: list[Fault] = []
    release = _read(workspace.release, workspace.root, TypeAdapter(Release), faults)
    if release is None:
        # The names are still worth checking, so that one run shows every fault.
        raw = _raw(workspace.release)
        scheme_names = [
            (f"variants.{name}.scheme", str(entry["scheme"]))
            for name, entry in _mapping(raw.get("variants")).items()
            if isinstance(entry, dict) and "scheme" in entry
        ]
        suites = _mapping(raw.get("evaluation")).get("suites")
        suite_names = [str(name) for name in suites] if isinstance(suites, list) else []
        paths = [
            (f"{section}.{key}", _mapping(raw.get(section)).get(key))
            for section, key in (
                ("calibration", "mix"),
                ("fidelity", "texts"),
                ("evaluation", "data_dir"),
            )
        ]
        files = [(key, path) for key, path in paths if isinstance(path, str)]
    else:
        scheme_names = [(f"variants.{k}.scheme", v.scheme) for k, v in release.variants.items()]
        suite_names = list(release.evaluation.suites)
        files = [("calibration.mix", release.calibration.mix)]
        files += [("fidelity.texts", release.fidelity.texts)]
        if release.evaluation.data_dir:
            files += [("evaluation.data_dir", release.evaluation.data_dir)]

    release_file = _relative(workspace.release, workspace.root)
    faults.extend(_names_that_do_not_meet(release_file, _raw(workspace.release)))
    for key, path in files:
        if not (workspace.root / path).exists():
            faults.append(Fault(release_file, key, f"{path} does not exist", "correct the path"))
    schemes = _schemes(workspace, release_file, scheme_names, faults)
    suite_models, suite_files = _suites(workspace, release_file, suite_names, faults)
    if release is None or faults:
        raise ConfigError(faults)
    return Config(workspace, release, schemes, suite_models, suite_files)


def load_schemes(workspace: Workspace) -> dict[str, Scheme]:
    """Every scheme there is, by name, whether the release has a variant of it or not.

    Raises:
        ConfigError: with every fault of every file.
    """
    faults: list[Fault] = []
    names = [("", path.stem) for path in sorted(_scheme_folder(workspace).glob("*.yaml"))]
    schemes = _schemes(workspace, "", names, faults)
    if faults:
        raise ConfigError(faults)
    return schemes


def load_yaml(path: Path, root: Path, model: type[T]) -> T:
    """Read one YAML file as ``model``.

    Raises:
        ConfigError: with every fault of the file.
    """
    faults: list[Fault] = []
    value = _read(path, root, TypeAdapter(model), faults)
    if value is None:
        raise ConfigError(faults)
    return value


def _names_that_do_not_meet(where: str, raw: dict[str, Any]) -> Iterator[Fault]:
    """Faults between sections, from the file as it is: other faults must not hide them."""
    variants, ranked = _mapping(raw.get("variants")), _mapping(raw.get("sensitivity"))
    fallbacks = _mapping(raw.get("fallback"))
    for section, names in (("variants", variants), ("fallback", fallbacks)):
        if BASELINE in names:
            message = f"'{BASELINE}' is the baseline's name"
            yield Fault(where, f"{section}.{BASELINE}", message, "take another name")
    for name in fallbacks:
        if name in variants:
            yield Fault(where, f"fallback.{name}", "is also a variant", "take another name")
    for name in ranked:
        if name not in variants:
            mend = f"one of: {', '.join(map(str, variants))}"
            yield Fault(where, f"sensitivity.{name}", f"'{name}' is no variant", mend)
    for name, entry in fallbacks.items():
        source = _mapping(entry).get("source")
        if isinstance(source, str) and source not in ranked:
            message = f"'{source}' has no ranking to take units from"
            yield Fault(where, f"fallback.{name}.source", message, f"add 'sensitivity.{source}'")
        if _mapping(variants.get(str(source))).get("checkpoint"):
            message = f"'{source}' is a ready-made checkpoint, which qpipe cannot quantize anew"
            mend = "fall back from a variant that its scheme makes"
            yield Fault(where, f"fallback.{name}.source", message, mend)


def _schemes(
    workspace: Workspace, release_file: str, names: list[tuple[str, str]], faults: list[Fault]
) -> dict[str, Scheme]:
    folder = _scheme_folder(workspace)
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    schemes: dict[str, Scheme] = {}
    read: set[str] = set()
    for key, name in names:
        if name in read:
            continue
        path = folder / f"{name}.yaml"
        if not path.exists():
            near = get_close_matches(name, known, n=1)
            mend = f"did you mean '{near[0]}'?" if near else f"one of: {', '.join(known)}"
            faults.append(Fault(release_file, key, f"there is no scheme '{name}'", mend))
            continue
        read.add(name)
        scheme = _read(path, workspace.root, TypeAdapter(Scheme), faults)
        if scheme is not None:
            schemes[name] = scheme
    return schemes


def _scheme_folder(workspace: Workspace) -> Path:
    return workspace.root / "configs" / "schemes"


def _suites(
    workspace: Workspace, release_file: str, names: list[str], faults: list[Fault]
) -> tuple[dict[str, Suite], dict[str, Path]]:
    suites: dict[str, Suite] = {}
    files: dict[str, Path] = {}
    known = {
        path.stem: path
        for kind in ("business", "public")
        for path in sorted((workspace.root / "evalsets" / kind).glob("*.yaml"))
    }
    for index, name in enumerate(names):
        key = f"evaluation.suites.{index}"
        if name not in known:
            mend = f"one of: {', '.join(sorted(known))}"
            faults.append(Fault(release_file, key, f"there is no suite '{name}'", mend))
            continue
        adapter: TypeAdapter[Suite] = TypeAdapter(Suite)
        suite = _read(known[name], workspace.root, adapter, faults)
        if suite is None:
            continue
        suites[name] = suite
        files[name] = known[name]
        for key, file in _named_files(suite).items():
            if not (known[name].parent / file).exists():
                where = _relative(known[name], workspace.root)
                faults.append(Fault(where, key, f"{file} does not exist", "correct the path"))
    return suites, files


def _named_files(suite: Suite) -> dict[str, str]:
    """Files beside the suite file that it names, by key."""
    if suite.kind == "business":
        named = {f"files.{category}": file for category, file in suite.files.items()}
        functions = {f"scorers.{name}": place for name, place in suite.scorers.items()}
    else:
        named = {}
        functions = {
            f"tasks.{name}.rows": task.rows for name, task in suite.tasks.items() if task.rows
        }
    return named | {key: place.partition(":")[0] for key, place in functions.items()}


def _read(path: Path, root: Path, adapter: TypeAdapter[T], faults: list[Fault]) -> T | None:
    where = _relative(path, root)
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError:
        mend = "run from the folder that holds configs/, or create the file"
        faults.append(Fault(where, "-", "the file does not exist", mend))
        return None
    except OSError as error:
        mend = "make it a file that you can read"
        faults.append(Fault(where, "-", f"cannot be read: {error.strerror}", mend))
        return None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        faults.append(Fault(where, "-", f"not YAML: {error}", "correct the syntax"))
        return None
    try:
        return adapter.validate_python(raw)
    except ValidationError as error:
        faults.extend(_fault(where, detail, adapter) for detail in error.errors())
        return None


def _fault(where: str, detail: Any, adapter: TypeAdapter[Any]) -> Fault:
    location = [str(part) for part in detail["loc"] if part != "[key]"]
    if not isinstance(adapter._type, type):  # a union's location starts with the kind it took
        location = location[1:]
    key = ".".join(location) or "-"
    kind, message = detail["type"], detail["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden":
        siblings = _siblings(adapter, location[:-1])
        near = get_close_matches(location[-1], siblings, n=1, cutoff=0.5)
        mend = f"did you mean '{near[0]}'?" if near else f"remove it; known: {', '.join(siblings)}"
        return Fault(where, key, "unknown key", mend)
    if kind == "missing":
        return Fault(where, key, "required key is missing", f"add '{location[-1]}'")
    if "mend" in detail.get("ctx", {}):
        return Fault(where, key, message, detail["ctx"]["mend"])
    mend = f"the value is {detail['input']!r}" if _is_scalar(detail["input"]) else "see the message"
    return Fault(where, key, message, f"{mend}; give a value that fits")


def _siblings(adapter: TypeAdapter[Any], path: list[str]) -> list[str]:
    """Known keys beside an unknown one, found by walking the model's annotations."""
    options: list[Any] = [adapter._type]
    for part in path:
        options = [inner for option in options for inner in _step(option, part)]
    return sorted({name for model in _models(options) for name in model.model_fields})


def _step(option: Any, part: str) -> list[Any]:
    inner: list[Any] = []
    for model in _models([option]):
        if part in model.model_fields:
            inner.append(model.model_fields[part].annotation)
    if not inner:  # a mapping's or list's values
        inner = [
            arg for candidate in [option, *get_args(option)] for arg in get_args(candidate)[-1:]
        ]
    return inner


def _models(options: list[Any]) -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = []
    for option in options:
        if isinstance(option, type) and issubclass(option, BaseModel):
            found.append(option)
        else:
            found.extend(_models([a for a in get_args(option) if a is not type(None)]))
    return found


def _raw(path: Path) -> dict[str, Any]:
    try:
        return _mapping(yaml.load(path.read_text(encoding="utf-8"), _Loader))
    except (OSError, yaml.YAMLError, UnicodeDecodeError):
        return {}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
