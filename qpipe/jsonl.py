"""JSONL files that users write: one JSON object a line, faults by line number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from qpipe.errors import Fault

__all__ = ["read_jsonl"]


def read_jsonl(path: Path, where: str, faults: list[Fault]) -> list[tuple[int, dict[str, Any]]]:
    """Numbered rows of ``path``; a row that is no JSON object becomes a fault and is left out.

    ``where`` is the name of the file in faults. Blank lines are skipped.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        mend = "create the file or correct the path"
        faults.append(Fault(where, "file", f"cannot be read: {error.strerror}", mend))
        return []
    rows: list[tuple[int, dict[str, Any]]] = []
    # A lone U+2028 may stand inside a JSON string, so only real newlines part rows.
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError:
            faults.append(Fault(f"{where}:{number}", "row", "not UTF-8", "save the file as UTF-8"))
            continue
        except (json.JSONDecodeError, RecursionError) as error:
            mend = "write one JSON object a line"
            faults.append(Fault(f"{where}:{number}", "row", f"not JSON: {error}", mend))
            continue
        if isinstance(row, dict):
            rows.append((number, row))
        else:
            message = f"a JSON {type(row).__name__}, not an object"
            mend = 'write one object a line: {"key": "value"}'
            faults.append(Fault(f"{where}:{number}", "row", message, mend))
    return rows
