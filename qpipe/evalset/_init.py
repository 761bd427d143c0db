"""``qpipe evalset init``: a suite to fill in."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from qpipe.config import Name
from qpipe.errors import ConfigError, Fault
from qpipe.paths import Workspace
from qpipe.records import write_text

__all__ = ["init_evalset"]

_TEMPLATES = Path(__file__).parent / "templates"


def init_evalset(workspace: Workspace, name: str) -> list[Path]:
    """Write ``evalsets/business/NAME.yaml`` and one file of sample rows a category.

    Raises:
        ConfigError: no workspace is here, the name does not fit, or such a suite is there.
    """
    if not workspace.release.exists():
        mend = "run from the folder that holds configs/"
        where = "configs/release.yaml"
        raise ConfigError([Fault(where, "-", "the file does not exist", mend)])
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError as error:
        message = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ConfigError([Fault("evalsets", name, message, "take another name")]) from error
    evalsets = workspace.root / "evalsets"
    suite, folder = evalsets / "business" / f"{name}.yaml", evalsets / "business" / name
    for path in (suite, folder, evalsets / "public" / suite.name):
        if path.exists():
            where = path.relative_to(workspace.root).as_posix()
            message = "it is there already, and nothing is overwritten"
            raise ConfigError([Fault(where, name, message, "take another name, or remove it")])
    rows = [folder / template.name for template in sorted(_TEMPLATES.glob("*.jsonl"))]
    for path in rows:
        write_text(path, (_TEMPLATES / path.name).read_text(encoding="utf-8"))
    # The suite comes last: a killed command leaves nothing that counts as one.
    text = (_TEMPLATES / "suite.yaml").read_text(encoding="utf-8")
    write_text(suite, re.sub(r"\bNAME\b", name, text))
    return [suite, *rows]
