"""What all workers share: read the request, write the result or the refusal."""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

# safetensors raises an error of its own type for a full disk, so the text has to tell.
DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system")
REFUSED = 3  # exit code: result.json holds {"refused": message, "mend": …}


class Refusal(Exception):
    """The request cannot be carried out, for a reason the user can mend."""

    def __init__(self, message: str, mend: str) -> None:
        super().__init__(message)
        self.mend = mend


def run(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Carry out the request named on the command line."""
    request_path, result_path = Path(sys.argv[1]), Path(sys.argv[2])
    request = json.loads(request_path.read_text(encoding="utf-8"))
    try:
        result, code = work(request), 0
    except Refusal as refusal:
        result, code = {"refused": str(refusal), "mend": refusal.mend}, REFUSED
    except Exception as error:
        if not DISK_FULL.search(str(error)):
            raise
        mend = "free disk space, then run the command again"
        result, code = {"refused": f"cannot write the result: {error}", "mend": mend}, REFUSED
    beside = result_path.with_suffix(".partial")
    beside.write_text(json.dumps(result), encoding="utf-8")
    beside.replace(result_path)
    sys.stdout.flush()
    # Skips destructors of loaded engines, which have been seen to hang at exit.
    os._exit(code)


def rows_of(request: dict[str, Any]) -> list[list[int]]:
    """Token ids of the calibration rows that the scheme takes."""
    if not request["calibration"]:
        return []
    with Path(request["calibration"]).open(encoding="utf-8") as file:
        rows = [json.loads(line)["input_ids"] for line in file]
    return rows[: request["samples"]] if request["samples"] else rows


def peak_memory_gib() -> dict[str, float]:
    """Most memory so far: resident in this process, and allocated on the devices together."""
    import torch

    peak = {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}
    if torch.cuda.is_available():
        devices = range(torch.cuda.device_count())
        peak["device"] = sum(map(torch.cuda.max_memory_allocated, devices)) / 2**30
    return {kind: round(gib, 3) for kind, gib in peak.items()}


def versions(*names: str) -> dict[str, str]:
    """What is installed here of the packages ``names``."""
    return {name: metadata.version(name) for name in names}


def progress(message: str) -> None:
    """Tell the parent where the work stands; it reads lines with this prefix from the log."""
    print(f"[qpipe] {message}", flush=True)
