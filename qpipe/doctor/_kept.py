"""What was verified, kept for as long as it holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from qpipe.config import Scheme
from qpipe.hardware import Hardware, identity
from qpipe.paths import Workspace
from qpipe.records import digest, write_json

__all__ = ["keep", "verified"]


def keep(
    workspace: Workspace, name: str, scheme: Scheme, hardware: Hardware, entry: Mapping[str, Any]
) -> None:
    """Store what was seen of one scheme."""
    entries = {**_kept(workspace), name: {**_key(workspace, scheme, hardware), **entry}}
    write_json(_store(workspace), {"schemes": entries})


def verified(
    workspace: Workspace, name: str, scheme: Scheme, hardware: Hardware
) -> dict[str, Any] | None:
    """What was seen of a scheme, if neither it nor machine nor environments changed since."""
    entry = _kept(workspace).get(name, {})
    key = _key(workspace, scheme, hardware)
    if any(entry.get(part) != value for part, value in key.items()):
        return None
    return {part: value for part, value in entry.items() if part not in key}


def _key(workspace: Workspace, scheme: Scheme, hardware: Hardware) -> dict[str, Any]:
    files = sorted((workspace.root / "configs" / "envs").glob("*.txt"))
    return {
        "scheme_hash": scheme.hash(),
        "machine_hash": digest(identity(hardware.record())),
        "environments_hash": digest([path.read_text(encoding="utf-8") for path in files]),
    }


def _store(workspace: Workspace) -> Path:
    return workspace.state / "doctor.json"


def _kept(workspace: Workspace) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(_store(workspace).read_text(encoding="utf-8"))
        return dict(found.get("schemes", {}))
    return {}
