"""Text and JSONL files that users write: UTF-8, one JSON object a line, faults by line number."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

from qpipe.errors import Fault

__all__ = ["encoding_problem", "read_jsonl"]

_MARKS = {  # the longer first: UTF-32's little-endian mark begins with UTF-16's
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}


def encoding_problem(data: bytes) -> tuple[str, str] | None:
    """Why a file's bytes are no UTF-8 text, and the mend; ``None``: they are."""
    return _other_encoding(data) or _undecodable(data)


def _other_encoding(data: bytes) -> tuple[str, str] | None:
    for name, marks in _MARKS.items():
        if data.startswith(marks):
            message = f"not UTF-8 but {name} (the byte order mark at byte 0)"
            return message, f"save the file as UTF-8: `iconv -f {name} -t UTF-8 FILE`"
    if (at := data.find(0)) >= 0:
        message = f"no text: byte {at} is NUL, as in UTF-16 without a byte order mark"
        return message, "save the file as UTF-8: `iconv -f UTF-16LE -t UTF-8 FILE`"
    return None


def _undecodable(data: bytes, at: int = 0) -> tuple[str, str] | None:
    """The same of a part of a file that begins at byte ``at``."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        mend = "save the file as UTF-8; from Latin-1: `iconv -f LATIN1 -t UTF-8 FILE`"
        return f"not UTF-8 (byte {at + error.start})", mend
    return None


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
    if problem := _other_encoding(data):
        faults.append(Fault(where, "file", *problem))
        return []
    rows: list[tuple[int, dict[str, Any]]] = []
    at = 0
    # A lone U+2028 may stand inside a JSON string, so only real newlines part rows.
    for number, line in enumerate(data.split(b"\n"), start=1):
        begins, at = at, at + len(line) + 1
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line.strip():
            continue
        if problem := _undecodable(line, begins):
            faults.append(Fault(f"{where}:{number}", "row", *problem))
            continue
        try:
            row = json.loads(line.decode("utf-8"))
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
