"""AutoAWQ's environment: parameters that it has, and what is raised within it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "qpipe" / "workers"))

import autoawq
from _protocol import Refusal


def said(params: dict[str, Any]) -> str:
    try:
        autoawq._require_known(params)
    except Refusal as refusal:
        return f"{refusal}; {refusal.mend}"
    return ""


class Broken:
    """A model whose quantizing fails within."""

    @classmethod
    def from_pretrained(cls, *arguments: Any, **settings: Any) -> Broken:
        return cls()

    def quantize(self, *arguments: Any, **settings: Any) -> None:
        raise TypeError("within")


def raised() -> str:
    autoawq.AutoAWQForCausalLM = Broken
    autoawq._for_older_transformers = lambda *_: None
    autoawq.rows_of = lambda _: [[1]]
    weights = {"num_bits": 4, "group_size": 64, "symmetric": False}
    scheme = {"weights": weights, "steps": [{"params": {}}]}
    rest = {"model": "", "output": "", "seed": 0, "trust_remote_code": False}
    try:
        autoawq.work({"scheme": scheme, **rest})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


print(
    json.dumps(
        {
            "known": said({"duo_scaling": True, "apply_clip": True}),
            "unknown": said({"duo_scalling": True}),
            "qpipe's own": said({"calib_data": "pileval"}),
            "within": raised(),
        }
    )
)
