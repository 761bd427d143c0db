"""All that can be known to be wrong with a user's questions before a model is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qpipe.config import BusinessSuite, Config, load_yaml
from qpipe.errors import ConfigError, Fault
from qpipe.evalset._leaks import SIGNS, WORDS, Leak, Text, find_leaks
from qpipe.evalset._length import length_faults

if TYPE_CHECKING:
    from qpipe.calibration import Document
    from qpipe.evaluation import Placed

__all__ = [
    "Suites",
    "all_suites",
    "calibration_leaks",
    "check_evalsets",
    "leak_fault",
    "suite_faults",
]

Suites = Mapping[str, tuple[Path, BusinessSuite]]
"""Suite files and what they say, by name."""
T = TypeVar("T")


def all_suites(config: Config, name: str | None = None) -> dict[str, tuple[Path, BusinessSuite]]:
    """The suite ``name``, or every suite in ``evalsets/business``; the release need not ask it.

    Raises:
        ConfigError: there is no such suite, or a suite file has faults.
    """
    faults: list[Fault] = []
    suites = _suites(config, name, faults)
    if faults:
        raise ConfigError(faults)
    return suites


def check_evalsets(config: Config, name: str | None = None) -> dict[str, int]:
    """Check the suite ``name``, or every suite in ``evalsets/business``; rows by suite.

    Raises:
        ConfigError: with all faults of all suites.
    """
    from qpipe.evaluation import read_business

    faults: list[Fault] = []
    suites = _suites(config, name, faults)
    faults += suite_faults(config, suites)
    if faults:
        raise ConfigError(faults)
    root = config.workspace.root
    return {
        key: sum(len(rows) for rows in read_business(path, suite, root, []).values())
        for key, (path, suite) in suites.items()
    }


def _suites(
    config: Config, name: str | None, faults: list[Fault]
) -> dict[str, tuple[Path, BusinessSuite]]:
    root = config.workspace.root
    folder = root / "evalsets" / "business"
    known = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if name is not None and name not in known:
        near = get_close_matches(name, known, n=1)
        mend = f"did you mean '{near[0]}'?" if near else f"run `qpipe evalset init {name}`"
        raise ConfigError([Fault("evalsets/business", name, "there is no such suite", mend)])
    suites = {}
    for key in known if name is None else [name]:
        suite = _collect(faults, load_yaml, known[key], root, BusinessSuite)
        if suite is not None:
            suites[key] = (known[key], suite)
    return suites


def suite_faults(config: Config, suites: Suites) -> list[Fault]:
    """Faults of rows and own scorers, questions asked twice, texts that leak, rows too long.

    The calibration mix and the held-out texts are read for it: theirs come first.
    """
    # What `qpipe evalset init` can do without.
    from qpipe.calibration import read_mix
    from qpipe.evaluation import load_scorers, read_business
    from qpipe.fidelity import load_paragraphs

    root = config.workspace.root
    faults: list[Fault] = []
    held_out = _collect(faults, load_paragraphs, config) or {}
    mix = _collect(faults, read_mix, root / config.release.calibration.mix, root)
    placed: dict[str, dict[str, list[Placed]]] = {}
    for name, (path, suite) in suites.items():
        placed[name] = read_business(path, suite, root, faults)
        _collect(faults, load_scorers, path, suite, root)
        faults += _asked_twice(placed[name])
        faults += length_faults(config, path, suite, placed[name])
    faults += _leaks(config, placed, held_out, {} if mix is None else mix[1])
    return faults


def _collect(faults: list[Fault], read: Callable[..., T], *args: Any) -> T | None:
    try:
        return read(*args)
    except ConfigError as error:
        faults.extend(error.faults)
        return None


def _asked_twice(rows: Mapping[str, list[Placed]]) -> Iterator[Fault]:
    from qpipe.evaluation import normalise

    exact: dict[str, str] = {}
    alike: dict[str, str] = {}
    for one in (one for group in rows.values() for one in group):
        text = one.row.text
        plain = normalise(text)
        if text in exact:
            message = f"the same question as {exact[text]}"
        elif plain in alike:
            message = f"but for case, spaces or punctuation the same question as {alike[plain]}"
        else:
            exact[text] = alike[plain] = one.at
            continue
        yield Fault(one.at, one.key, message, "ask something else, or remove the row")


def calibration_leaks(
    config: Config, words: int = WORDS, signs: int = SIGNS
) -> tuple[list[Leak], int]:
    """What business and held-out texts share with the calibration mix, and how many they are.

    ``words`` and ``signs`` in a row count as shared: see :func:`find_leaks`.

    Raises:
        ConfigError: the mix, the held-out texts or the rows have faults.
    """
    from qpipe.calibration import read_mix
    from qpipe.evaluation import read_business
    from qpipe.fidelity import load_paragraphs

    root, faults = config.workspace.root, list[Fault]()
    _, documents = read_mix(root / config.release.calibration.mix, root)
    placed = {
        name: read_business(config.suite_files[name], suite, root, faults)
        for name, suite in config.suites.items()
        if isinstance(suite, BusinessSuite)
    }
    paragraphs = _paragraphs(config, load_paragraphs(config))
    if faults:
        raise ConfigError(faults)
    targets = [*_rows(placed), *paragraphs]
    return find_leaks(targets, _contents(documents), words, signs), len(targets)


def leak_fault(leak: Leak) -> Fault:
    """A text that stands in the calibration mix too."""
    mend = "take it out of the calibration mix, or replace it here"
    message = f"'{leak.shared}' stands in the calibration text too: {leak.source.where}"
    return Fault(leak.target.where, leak.target.key, message, mend)


def _leaks(
    config: Config,
    placed: Mapping[str, Mapping[str, list[Placed]]],
    held_out: Mapping[str, list[str]],
    documents: Mapping[str, list[Document]],
) -> Iterator[Fault]:
    rows, paragraphs = _rows(placed), _paragraphs(config, held_out)
    yield from map(leak_fault, find_leaks([*rows, *paragraphs], _contents(documents)))
    for leak in find_leaks(rows, paragraphs):
        target, source = leak.target, leak.source
        mend = "ask something else, or replace the held-out text"
        place = f"{source.where}, {source.key}"
        message = f"'{leak.shared}' stands in the held-out text too: {place}"
        yield Fault(target.where, target.key, message, mend)


def _rows(placed: Mapping[str, Mapping[str, list[Placed]]]) -> list[Text]:
    return [
        Text(one.at, one.key, f"{suite}/{category}", one.row.text)
        for suite, groups in placed.items()
        for category, group in groups.items()
        for one in group
    ]


def _paragraphs(config: Config, held_out: Mapping[str, list[str]]) -> list[Text]:
    folder = config.release.fidelity.texts
    return [
        Text(f"{folder}/{category}.txt", f"paragraph {number}", "", paragraph)
        for category, parts in held_out.items()
        for number, paragraph in enumerate(parts, start=1)
    ]


def _contents(documents: Mapping[str, Iterable[Document]]) -> Iterator[Text]:
    for one in (one for group in documents.values() for one in group):
        parts = [one.content] if isinstance(one.content, str) else one.content
        for part in parts:
            text = part if isinstance(part, str) else str(part["content"])
            yield Text(one.where, "", "", text)
